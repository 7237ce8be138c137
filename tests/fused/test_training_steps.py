"""Training calls `fuse` at every step, and replayed graphs follow edits of the model."""

from functools import partial

import pytest
import torch
from torch import nn

from regard import trace
from regard.attention.alignments import ALIGNMENTS
from regard.checkpoint import RunFolder
from regard.contracts import PAD, Batch, ClassificationBatch, PaddedTokens, Segment, unsupported_reasons
from regard.fused import fuse
from regard.layers import GRUUpdate
from regard.recipes import make_run
from regard.tasks import task_of
from regard.training import ClassificationObjective, ComputeSettings, CropObjective, Objective, StreamObjective
from regard.training.cuda_graph import WARM_UP, GraphedStep, reasons_against_replay
from regard.training.engine import Engine
from tests.fused.training_systems import (
    SENTENCES,
    SOURCES,
    SYSTEMS,
    TARGETS,
    TOKENS,
    every_system,
    run_language_model,
    translate,
)
from tests.recipes.texts import TEXT, make_sentences
from tests.training.test_auto_step import fake_cuda  # noqa: F401 - a fixture
from tests.training.toy import settings

LABELS = PaddedTokens.from_lists([[*target[1:], 2] for target in TARGETS]).ids
FRESH = torch.tensor([True, False])


def batch_of(system):
    """A batch of the system's kind, and its objective."""
    if system.run is translate:
        count = int((LABELS != PAD).sum())
        source, target = PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
        return Batch(source=source, target=target, labels=LABELS, num_tokens=count), Objective
    if system.run is run_language_model:
        tokens, labels = TOKENS[:, :-1], TOKENS[:, 1:]
        return Segment(tokens=tokens, labels=labels, fresh=FRESH, num_tokens=labels.numel()), StreamObjective
    return ClassificationBatch(
        sentences=SENTENCES, labels=torch.tensor([0, 2, 1, 0]), num_tokens=4
    ), ClassificationObjective


def gradients(objective, batch):
    objective.zero_grad(set_to_none=True)
    loss = objective(batch)
    loss.backward()
    return loss, {name: parameter.grad for name, parameter in objective.named_parameters()}


@every_system
def test_an_objective_trains_by_the_fused_loop_with_equal_gradients(system, loops_on_cpu):
    model = system.make()
    batch, kind = batch_of(system)
    loss, grads = gradients(kind(model, label_smoothing=0.1, fuse=fuse), batch)
    assert loops_on_cpu
    loops_on_cpu.clear()
    expected, readable = gradients(kind(model, label_smoothing=0.1), batch)
    assert not loops_on_cpu and loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for name, grad in readable.items():
        assert (grads[name] is None) == (grad is None), name
        assert grad is None or grads[name].allclose(grad, atol=1e-10), name


def test_a_crop_is_processed_by_the_fused_loop(loops_on_cpu):
    system = SYSTEMS["language-1-3"]
    model, (batch, _) = system.make(), batch_of(system)
    torch.testing.assert_close(CropObjective(model, fuse=fuse)(batch), CropObjective(model)(batch))
    assert loops_on_cpu == ["FusedLSTMNLanguageModel"]


@every_system
def test_a_state_dict_does_not_contain_the_fused_model(system):
    _, kind = batch_of(system)
    model = system.make()
    assert set(kind(model, fuse=fuse).state_dict()) == {f"model.{name}" for name in model.state_dict()}


@pytest.mark.parametrize("name", ["bahdanau", "language-1-3", "classifier-1"])
def test_the_engine_trains_by_the_fused_loop(name, loops_on_cpu):
    system = SYSTEMS[name]
    batch, kind = batch_of(system)
    engine = Engine(system.make(torch.float32), settings(), partial(kind, fuse=fuse))
    engine.train_step(((batch, True),), num_tokens=4, learning_rate=0.01)
    assert len(loops_on_cpu) == 1


def test_a_model_in_a_distributed_wrapper_trains_by_the_fused_loop(loops_on_cpu):
    system = SYSTEMS["bahdanau"]
    batch, kind = batch_of(system)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        objective = nn.parallel.DistributedDataParallel(kind(system.make(), fuse=fuse))
        loss, _ = gradients(objective, batch)
    finally:
        torch.distributed.destroy_process_group()
    torch.testing.assert_close(loss, kind(system.make())(batch))
    assert loops_on_cpu == ["FusedBahdanau"]


@pytest.mark.parametrize(
    ("recipe", "name", "content"),
    [("copy", "bahdanau", None), ("text", "lstmn", TEXT), ("sentences", "lstmn_encoder", make_sentences(40))],
    ids=["translation", "language", "sentences"],
)
def test_every_task_trains_with_fused_code(recipe, name, content, tmp_path):
    files = {}
    if content is not None:
        (tmp_path / "data.txt").write_text(content)
        files = {"data": tmp_path / "data.txt"}
    run = make_run(recipe, name, **files)
    setup = task_of(run).setup(run, RunFolder(tmp_path / "run"), resume=False, notify=lambda *_: None)
    assert setup.objective(nn.Linear(2, 2)).fuse is fuse


@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["bahdanau", "classifier-1"])
def test_a_compiled_objective_runs_the_models_own_code(name, loops_on_cpu):
    system = SYSTEMS[name]
    batch, kind = batch_of(system)
    model = system.make()
    compiled = torch.compile(kind(model, fuse=fuse), backend="eager")
    torch.testing.assert_close(compiled(batch), kind(model)(batch))
    assert not loops_on_cpu


class Steps:
    """Graphed steps of a fused objective on the CPU: captures are recorded, and replays compute nothing."""

    def __init__(self, record, system, *, dropout=0.2):
        self.record = record
        self.model = system.make(torch.float32, dropout=dropout).train()
        self.batch, kind = batch_of(system)
        objective = kind(self.model, fuse=fuse)
        self.step = GraphedStep(
            objective,
            objective,
            torch.optim.SGD(self.model.parameters(), lr=0.1),
            reasons=partial(reasons_against_replay, self.model),
            edits=partial(unsupported_reasons, self.model, gradients=True, autocast=True),
        )

    def run(self, count=1):
        for _ in range(count):
            self.step(self.batch, num_tokens=4, learning_rate=0.01)

    @property
    def replays(self):
        return [graph.replays for graph, _ in self.record.captures]


@pytest.fixture
def steps(fake_cuda, loops_on_cpu):  # noqa: F811 - the fixture
    """Bahdanau's step, captured with the fused loop and replayed once."""
    steps = Steps(fake_cuda, SYSTEMS["bahdanau"])
    steps.run(WARM_UP + 1)
    assert steps.replays == [1] and len(loops_on_cpu) == WARM_UP + 1
    loops_on_cpu.clear()
    return steps


def change_dropout(model):
    model.dropout.p = 0.4


def replace_module(model):
    class Decoder(GRUUpdate):
        pass

    model.decoder.__class__ = Decoder


def replace_alignment(model):
    model.attention.align = ALIGNMENTS["sparsemax"].build()


def replace_step(model):
    model.advance = lambda *arguments: type(model).advance(model, *arguments)


def add_attention_dropout(model):
    model.attention.dropout = 0.3


STRUCTURE = [change_dropout, replace_module, replace_alignment, replace_step, add_attention_dropout]


@pytest.mark.parametrize("edit", STRUCTURE, ids=lambda edit: edit.__name__)
def test_a_graph_of_a_fused_loop_is_not_replayed_after_an_edit(steps, edit, loops_on_cpu):
    edit(steps.model)
    steps.run(WARM_UP)
    assert steps.replays == [1] and not loops_on_cpu
    steps.run(2)
    # captured again, with the model's own code
    assert steps.replays == [1, 2] and not loops_on_cpu


def test_every_further_edit_drops_the_graphs(steps):
    for count, rate in enumerate((0.4, 0.5, 0.2), start=2):
        steps.model.dropout.p = rate
        steps.run(WARM_UP + 1)
        assert len(steps.replays) == count and steps.replays[-1] == 1


def test_a_changed_eps_drops_the_graphs(fake_cuda):  # noqa: F811 - the fixture
    from tests.fused.systems import make_transformer

    model = make_transformer()
    source, target = (PaddedTokens.from_lists([[1, 5, 6, 2], [1, 2]]) for _ in range(2))
    batch = Batch(source=source, target=target, labels=target.ids, num_tokens=6)
    objective = Objective(model, fuse=fuse)
    step = GraphedStep(
        objective,
        objective,
        torch.optim.SGD(model.parameters(), lr=0.1),
        edits=partial(unsupported_reasons, model, gradients=True, autocast=True),
    )
    for _ in range(WARM_UP + 1):
        step(batch, num_tokens=4, learning_rate=0.01)
    model.decoder[0].feed_forward_norm.norm.eps = 0.1
    step(batch, num_tokens=4, learning_rate=0.01)
    assert [graph.replays for graph, _ in fake_cuda.captures] == [1]


def test_graphs_are_replayed_again_after_a_hook_is_removed(steps, loops_on_cpu):
    calls = []
    handle = steps.model.decoder.candidate.register_forward_hook(lambda *_: calls.append(1))
    steps.run(2)
    assert len(calls) == 2 * LABELS.shape[1] and steps.replays == [1] and not loops_on_cpu
    handle.remove()
    steps.run()
    assert steps.replays == [2]


def test_a_trace_records_a_step_that_would_be_replayed(steps, loops_on_cpu):
    with trace(steps.model) as maps:
        steps.run()
    assert len(maps["attention"]) == LABELS.shape[1] and steps.replays == [1] and not loops_on_cpu
    steps.run()
    assert steps.replays == [2]


def test_an_edited_weight_keeps_the_graphs(steps):
    with torch.no_grad():
        steps.model.decoder.candidate.weight[0] = 0.0
    steps.model.decoder.candidate.weight.data[1] = 1.0
    steps.run()
    assert steps.replays == [2]


def test_a_replaced_weight_drops_the_graphs(steps, loops_on_cpu):
    steps.model.decoder.candidate.weight = nn.Parameter(torch.zeros(5, 5))
    steps.run(WARM_UP + 1)
    assert steps.replays == [1, 1] and len(loops_on_cpu) == WARM_UP + 1


@pytest.mark.cuda
@every_system
def test_on_a_gpu_graphed_steps_train_as_eager_readable_ones(system, loops):
    batch, kind = batch_of(system)
    losses = {}
    for step, door in (("eager", None), ("graphed", fuse)):
        compute = ComputeSettings(device="cuda", precision="fp32", step=step)
        make = kind if door is None else partial(kind, fuse=door)
        engine = Engine(system.make(torch.float32), settings(compute=compute), make, capturable=True)
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            losses[step] = [
                engine.train_step(((engine.reshape(batch), True),), num_tokens=9, learning_rate=1e-3).item()
                for _ in range(WARM_UP + 3)
            ]
        assert bool(loops) == (door is not None)
    assert losses["graphed"] == pytest.approx(losses["eager"], rel=1e-3)


@pytest.mark.cuda
@pytest.mark.parametrize("edit", [change_dropout, replace_alignment], ids=lambda edit: edit.__name__)
def test_on_a_gpu_an_edit_reaches_a_graphed_step(edit, loops):
    system = SYSTEMS["bahdanau"]
    batch, kind = batch_of(system)
    compute = ComputeSettings(device="cuda", precision="fp32", step="graphed")
    engine = Engine(system.make(torch.float32), settings(compute=compute), partial(kind, fuse=fuse), capturable=True)
    learn = partial(engine.train_step, ((engine.reshape(batch), True),), num_tokens=9, learning_rate=1e-3)
    for _ in range(WARM_UP + 2):
        learn()
    assert loops
    loops.clear()
    edit(engine.model)
    learn()
    assert not loops and not any(shape.graph for shape in engine.graphed.shapes.values())
