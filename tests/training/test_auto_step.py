"""Default training steps: replayed as CUDA graphs where that is supported, and eagerly, with reasons, elsewhere."""

import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from io import StringIO
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from torch import nn

from regard.training import ClassificationObjective, ComputeSettings, train
from regard.training import cuda_graph as graphs
from regard.training.cuda_graph import WARM_UP, GraphedStep, choose_step, identity_of, reasons_against_replay
from regard.training.engine import Engine
from tests.contracts import test_sentence_models as sentences
from tests.training.toy import Letters, Toy, settings

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


def choose(model=None, *, device=CUDA, num_processes=1, capturable=True, **compute):
    model = model or nn.Linear(2, 2)
    return choose_step(
        ComputeSettings(**compute), model, device=device, num_processes=num_processes, capturable=capturable
    )


def with_hook():
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_forward_hook(lambda *_: None)
    return model


def with_own_forward():
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].forward = lambda inputs: inputs
    return model


def test_a_supported_step_is_graphed_by_default():
    choice = choose()
    assert choice.mode == "graphed" and choice.reasons == ()
    assert str(choice) == (
        "Training steps are replayed as CUDA graphs: the device, the number of processes and the model suit."
    )


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"device": CPU}, "the device is cpu"),
        ({"num_processes": 2}, "2 processes train together"),
        ({"accumulation": 3}, "accumulation is 3"),
        ({"capturable": False}, "the model does not declare its step as capturable"),
        ({"model": with_hook()}, "the model has hooks"),
        ({"model": with_own_forward()}, "the forward of a Linear was replaced"),
    ],
)
def test_each_reason_makes_the_default_eager(case, reason):
    choice = choose(**case)
    assert choice.mode == "eager" and len(choice.reasons) == 1
    assert choice.reasons[0].startswith(reason)
    assert str(choice).startswith(f"Training steps run eagerly, without CUDA graphs: {reason}")


def test_all_reasons_are_listed():
    assert len(choose(with_hook(), device=CPU, num_processes=2, capturable=False, accumulation=2).reasons) == 5


@pytest.mark.parametrize("step", ["eager", "graphed", "compiled"])
def test_an_explicit_mode_is_used_whatever_the_model_declares(step):
    choice = choose(with_hook(), capturable=False, step=step)
    assert (choice.mode, choice.reasons) == (step, ())


@pytest.mark.parametrize("step", ["graphed", "compiled"])
@pytest.mark.parametrize("case", [{"device": CPU}, {"num_processes": 2}, {"accumulation": 2}])
def test_a_mode_that_cannot_run_is_refused(step, case):
    with pytest.raises(ValueError, match=rf"a {step} step needs one process on one CUDA device.*compute\.step=auto"):
        choose(step=step, **case)


def run_of(tmp_path, compute):
    output = StringIO()
    console = Console(file=output, width=200)
    train(Toy(), Letters(), settings(compute=compute), tmp_path, console=console)
    return output.getvalue()


def test_one_line_reports_how_steps_run(tmp_path):
    output = run_of(tmp_path, ComputeSettings(device="cpu", precision="fp32"))
    assert output.count("Training steps run eagerly, without CUDA graphs: the device is cpu") == 1


def test_an_explicit_eager_mode_prints_no_line(tmp_path):
    assert "Training steps" not in run_of(tmp_path, ComputeSettings(device="cpu", precision="fp32", step="eager"))


def test_a_run_may_be_resumed_with_another_step_mode(tmp_path):
    compute = ComputeSettings(device="cpu", precision="fp32", step="eager")
    train(Toy(), Letters(), settings(compute=compute, steps=3), tmp_path, console=Console(quiet=True))
    longer = settings(compute=replace(compute, step="auto"), steps=6)
    assert train(Toy(), Letters(), longer, tmp_path, resume=True, console=Console(quiet=True)).steps == 6


class FakeStream:
    def wait_stream(self, other):
        pass


class FakeGraph:
    """Counts replays; the computation runs once, during the capture."""

    def __init__(self):
        self.replays = 0

    def replay(self):
        self.replays += 1


@pytest.fixture
def fake_cuda(monkeypatch):
    """The names of torch.cuda that a graphed step uses, on the CPU: captures and their pools are recorded."""

    record = SimpleNamespace(captures=[], modes=[], free=1 << 30, peak=1 << 20)

    @contextmanager
    def capture(graph, *, stream, pool, capture_error_mode):
        record.captures.append((graph, pool))
        yield

    fakes = {
        "Stream": FakeStream,
        "current_stream": FakeStream,
        "stream": lambda stream: nullcontext(),
        "graph_pool_handle": object,
        "CUDAGraph": FakeGraph,
        "graph": capture,
        "synchronize": lambda: None,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": record.modes.append,
        "memory_allocated": lambda: 0,
        "memory_reserved": lambda: 0,
        "mem_get_info": lambda: (record.free, record.free),
        "max_memory_allocated": lambda: record.peak,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return record


class Halves(nn.Module):
    """Two layers and a buffer, squared; calls are counted."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 3)
        self.register_buffer("scale", torch.ones(3))
        self.dropout = nn.Dropout(0.1)
        self.calls = 0

    def forward(self, batch):
        self.calls += 1
        return (self.second(self.first(batch)) * self.scale).square().sum()


def step_of(model, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return GraphedStep(model, model, optimizer, reasons=lambda: reasons_against_replay(model), **options)


def run(step, count=1, rows=2):
    for _ in range(count):
        step(torch.ones(rows, 3), num_tokens=4, learning_rate=0.01)


def test_a_shape_is_warmed_up_captured_and_replayed(fake_cuda):
    step = step_of(Halves())
    run(step, WARM_UP)
    assert step.module.calls == WARM_UP and not fake_cuda.captures
    run(step, 3)
    # the capture calls the model once more, replays do not
    assert step.module.calls == WARM_UP + 1
    assert [graph.replays for graph, _ in fake_cuda.captures] == [3]
    run(step, WARM_UP + 2, rows=5)
    assert [graph.replays for graph, _ in fake_cuda.captures] == [3, 2]


def ready(fake_cuda, **options):
    """A step with one graph that was replayed once."""
    step = step_of(Halves(), **options)
    run(step, WARM_UP + 1)
    assert len(fake_cuda.captures) == 1
    return step


def replace_forward(model):
    model.first.forward = lambda inputs: inputs.new_ones(len(inputs), 4)
    return lambda: model.first.__dict__.pop("forward")


@pytest.mark.parametrize(
    "watch",
    [
        lambda model: model.first.register_forward_hook(lambda *_: None).remove,
        lambda model: model.first.register_forward_pre_hook(lambda *_: None).remove,
        lambda model: model.second.register_full_backward_hook(lambda *_: None).remove,
        replace_forward,
    ],
    ids=["forward hook", "pre-hook", "backward hook", "replaced forward"],
)
def test_no_graph_is_replayed_while_a_model_is_traced_or_has_hooks(fake_cuda, watch):
    step = ready(fake_cuda)
    calls = step.module.calls
    undo = watch(step.module)
    run(step, 2)
    assert step.module.calls == calls + 2 and fake_cuda.captures[0][0].replays == 1
    undo()
    run(step)
    assert step.module.calls == calls + 2 and fake_cuda.captures[0][0].replays == 2


def assign(model):
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def new_data(model):
    model.first.weight.data = model.first.weight.data.clone()


def transposed(model):
    """The same memory in another layout."""
    model.first.weight.data = model.first.weight.data.view(3, 4).t()


def new_parameter(model):
    model.second.bias = nn.Parameter(torch.zeros(3))


def new_buffer(model):
    model.scale = torch.full((3,), 2.0)


def new_module(model):
    model.first = nn.Linear(3, 4)


@pytest.mark.parametrize(
    "change",
    [
        assign,
        new_data,
        transposed,
        new_parameter,
        new_buffer,
        new_module,
        lambda model: model.dropout.eval(),
        lambda model: model.first.bias.requires_grad_(False),
    ],
    ids=["assign", "new data", "transposed", "parameter", "buffer", "module", "eval", "frozen"],
)
def test_graphs_are_dropped_when_tensors_or_modes_of_the_model_change(fake_cuda, change):
    step = ready(fake_cuda)
    change(step.module)
    calls = step.module.calls
    run(step, WARM_UP)
    assert step.module.calls == calls + WARM_UP and len(fake_cuda.captures) == 1
    run(step)
    assert len(fake_cuda.captures) == 2 and fake_cuda.captures[0][0].replays == 1
    # a pool whose graphs were deleted cannot be used again
    assert fake_cuda.captures[0][1] is not fake_cuda.captures[1][1]


def edit(model):
    with torch.no_grad():
        model.first.weight[0] = 0.0


@pytest.mark.parametrize(
    "change",
    [edit, lambda model: model.load_state_dict(model.state_dict()), lambda model: model.eval().train()],
    ids=["edit", "load", "validation"],
)
def test_edits_in_place_keep_the_graphs(fake_cuda, change):
    step = ready(fake_cuda)
    change(step.module)
    run(step)
    assert [graph.replays for graph, _ in fake_cuda.captures] == [2]


def test_a_step_that_synchronizes_is_detected_before_its_capture(fake_cuda):
    class Waiting(Halves):
        def forward(self, batch):
            warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=1)
            return super().forward(batch)

    step = step_of(Waiting(), cautious=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(step, WARM_UP)
        assert step.failure == "the step synchronises with the device, which a graph cannot contain"
        run(step, 3)
    assert not fake_cuda.captures and step.module.calls == WARM_UP + 3
    assert fake_cuda.modes == ["warn", 0], "the mode is restored"


def test_a_step_that_fills_the_gpu_is_not_captured(fake_cuda):
    fake_cuda.peak = fake_cuda.free
    step = step_of(Halves(), cautious=True)
    run(step, WARM_UP + 2)
    assert "memory" in step.failure and not fake_cuda.captures and not step.shapes


def test_training_continues_eagerly_after_a_failure():
    class Failing:
        failure = ""

        def __call__(self, batch, *, num_tokens, learning_rate):
            self.failure = "there is no room"
            return torch.tensor(2.5)

    engine, batch = Engine(Toy(), settings()), Letters().make([0, 1, 2])
    engine.graphed = Failing()
    assert engine.reshape(batch).source.ids.shape[0] == 32
    learn = partial(engine.train_step, ((batch, True),), num_tokens=batch.num_tokens, learning_rate=0.01)
    assert learn().item() == 2.5
    assert str(engine.choice) == "Training steps run eagerly, without CUDA graphs: there is no room."
    assert engine.reshape(batch) is batch and learn().item() > learn().item()


def test_a_cautious_step_is_captured_without_reasons_against_it(fake_cuda):
    assert ready(fake_cuda, cautious=True).failure == ""


def test_the_identity_of_a_module_is_that_of_its_tensors():
    model = Halves()
    before = identity_of(model)
    assert before == identity_of(model)
    with torch.no_grad():
        model.first.weight.mul_(2.0)
    assert before == identity_of(model)


def test_classification_batches_are_padded_in_length_only():
    batch = sentences.labelled()
    filled = graphs.SHAPE_PADDER(batch)
    assert filled.sentences.ids.shape == (5, 8) and torch.equal(filled.labels, batch.labels)
    model = sentences.make("structured_self_attention", {})
    assert ClassificationObjective(model)(filled).item() == pytest.approx(ClassificationObjective(model)(batch).item())
