"""Batches padded to few shapes, steps as CUDA graphs, and the compiled objective equal the plain step."""

import random
from functools import partial

import pytest
import torch

from regard.contracts import BOS, EOS, PAD, Batch, PackedTokens, PaddedTokens, map_tensors
from regard.fused import fuse
from regard.models.translation import TRANSLATION_MODELS
from regard.models.translation.transformer import Transformer, TransformerConfig
from regard.training import cuda_graph as graph
from regard.training.cuda_graph import WARM_UP, GraphedStep, ShapePadder, copy_batch, round_up, shape_of
from regard.training.objectives import Objective

VOCAB = 23
SHAPE_PADDER = ShapePadder(rows=4, tokens=16, longest=4, padded_rows=4, padded_longest=4)
RECURRENT = ["bahdanau", "luong", "lstmn"]


def make_rows(count, seed, longest=7):
    """Sources and targets without special tokens, of random lengths."""
    chance = random.Random(seed)

    def sentence():
        return [chance.randrange(4, VOCAB) for _ in range(chance.randrange(1, longest + 1))]

    return [(sentence(), sentence()) for _ in range(count)]


def make_batch(rows, kind=PackedTokens):
    sources = kind.from_lists([[*source, EOS] for source, _ in rows])
    targets = kind.from_lists([[BOS, *target] for _, target in rows])
    labels = kind.from_lists([[*target, EOS] for _, target in rows]).ids
    return Batch(source=sources, target=targets, labels=labels, num_tokens=int((labels != PAD).sum()))


def make_objective(dtype=torch.float64, label_smoothing=0.1, **changes):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "feed_forward_size": 32, "dropout": 0.0}
    config = TransformerConfig(source_vocab_size=VOCAB, target_vocab_size=VOCAB, **sizes | changes)
    return Objective(Transformer(config).to(dtype), label_smoothing=label_smoothing)


def gradients(objective, run, batch):
    """The loss, and every parameter's gradient by name."""
    loss = run(batch)
    names, parameters = zip(*objective.named_parameters(), strict=True)
    return loss.detach(), dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def errors_of(actual, truth):
    """Relative errors of loss and gradients by name.

    Some gradients are 0 except for rounding, such as that of the keys' bias: the scale is at least a tenth of the
    median norm.
    """
    norms = {name: gradient.double().norm() for name, gradient in truth[1].items()}
    least = torch.stack(list(norms.values())).median() / 10
    errors = {"loss": ((actual[0].double() - truth[0].double()).abs() / truth[0].double().abs()).item()}
    for name, norm in norms.items():
        errors[name] = ((actual[1][name].double() - truth[1][name].double()).norm() / torch.maximum(norm, least)).item()
    return errors


def assert_close(actual, expected, tolerance):
    """Report all errors if one is too large."""
    errors = errors_of(actual, expected)
    table = "\n".join(f"{error:.3e}  {name}" for name, error in errors.items())
    assert max(errors.values()) <= tolerance, f"relative errors:\n{table}"


def assert_errs_no_more(actual, plain, truth, slack):
    """At most twice the error of the plain run against float64; all are reported if one is larger."""
    ours, theirs = errors_of(actual, truth), errors_of(plain, truth)
    table = "\n".join(f"{ours[name]:.3e}  {theirs[name]:.3e}  {name}" for name in ours)
    wrong = [name for name in ours if not ours[name] <= 2 * theirs[name] + slack]
    assert not wrong, f"wrong: {', '.join(wrong)}\nrelative errors of the compiled and of the eager run:\n{table}"


@pytest.mark.parametrize(("count", "multiple", "expected"), [(0, 8, 8), (1, 8, 8), (8, 8, 8), (9, 8, 16), (5, 1, 5)])
def test_rounding_up(count, multiple, expected):
    assert round_up(count, multiple) == expected


@pytest.mark.parametrize("count", [1, 3, 4, 11])
def test_a_padded_batch_has_the_same_rows_in_a_rounded_shape(count):
    batch = make_batch(make_rows(count, seed=count))
    filled = SHAPE_PADDER(batch)
    assert filled.num_tokens == batch.num_tokens
    rows = {len(side.cu_seqlens) - 1 for side in (filled.source, filled.target)}
    assert len(rows) == 1 and rows.pop() % SHAPE_PADDER.rows == 0
    for side, before in ((filled.source, batch.source), (filled.target, batch.target)):
        assert side.max_seqlen % SHAPE_PADDER.longest == 0 and side.max_seqlen >= before.max_seqlen
        assert len(side.ids) % SHAPE_PADDER.tokens == 0
        assert torch.equal(side.ids[: len(before.ids)], before.ids)
        assert torch.equal(side.lengths[: len(before.lengths)], before.lengths)
        assert (side.ids[len(before.ids) :] == PAD).all() and side.lengths.max() <= side.max_seqlen
    assert filled.labels.shape == filled.target.ids.shape
    assert torch.equal(filled.labels[: len(batch.labels)], batch.labels)
    assert (filled.labels[len(batch.labels) :] == PAD).all()


def test_padding_twice_changes_nothing():
    once = SHAPE_PADDER(make_batch(make_rows(5, seed=0)))
    twice = SHAPE_PADDER(once)
    assert shape_of(once) == shape_of(twice)
    assert torch.equal(once.target.ids, twice.target.ids) and torch.equal(once.labels, twice.labels)


def test_many_batches_have_few_shapes():
    batches = [make_batch(make_rows(6, seed=seed)) for seed in range(30)]
    assert len({shape_of(batch) for batch in batches}) > 20
    assert len({shape_of(SHAPE_PADDER(batch)) for batch in batches}) < 10


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("count", [1, 6])
def test_padded_and_packed_batches_have_equal_loss_and_gradient(count, norm):
    objective = make_objective(norm=norm)
    rows = make_rows(count, seed=count)
    packed = make_batch(rows)
    padded = make_batch(rows, PaddedTokens)
    assert padded.num_tokens == packed.num_tokens
    expected = gradients(objective, objective, padded)
    assert_close(gradients(objective, objective, packed), expected, 1e-10)
    assert_close(gradients(objective, objective, SHAPE_PADDER(packed)), expected, 1e-10)


def make_recurrent(name, dtype=torch.float64):
    torch.manual_seed(0)
    sizes = {"embedding_size": 6, "hidden_size": 8, "source_vocab_size": VOCAB, "target_vocab_size": VOCAB}
    entry = TRANSLATION_MODELS[name]
    return Objective(entry.build(entry.config(**sizes, dropout=0.0)).to(dtype), label_smoothing=0.1)


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("count", [1, 6])
def test_padding_to_a_shape_changes_neither_loss_nor_gradient(count, name):
    objective, batch = make_recurrent(name), make_batch(make_rows(count, seed=count), PaddedTokens)
    filled = SHAPE_PADDER(batch)
    assert filled.num_tokens == batch.num_tokens
    for side in (filled.source, filled.target):
        assert (
            side.ids.shape[0] % SHAPE_PADDER.padded_rows == 0 and side.ids.shape[1] % SHAPE_PADDER.padded_longest == 0
        )
        assert side.lengths.min() > 0
    assert filled.labels.shape == filled.target.ids.shape
    expected = gradients(objective, objective, batch)
    assert_close(gradients(objective, objective, filled), expected, 1e-10)


def test_many_padded_batches_have_few_shapes():
    batches = [make_batch(make_rows(6, seed=seed), PaddedTokens) for seed in range(30)]
    assert (
        len({shape_of(SHAPE_PADDER(batch)) for batch in batches}) < 10 > len({shape_of(batch) for batch in batches}) / 2
    )


def test_a_batch_is_copied_into_the_tensors_of_another():
    target, source = (SHAPE_PADDER(make_batch(make_rows(4, seed=seed, longest=3))) for seed in (0, 1))
    assert shape_of(target) == shape_of(source)
    places = [source.source.ids.data_ptr(), source.labels.data_ptr()]
    copy_batch(target, source)
    assert [source.source.ids.data_ptr(), source.labels.data_ptr()] == places
    for side in ("source", "target"):
        for name in ("ids", "cu_seqlens", "batch_indices", "positions"):
            assert torch.equal(getattr(getattr(source, side), name), getattr(getattr(target, side), name))
    assert torch.equal(source.labels, target.labels)


@pytest.mark.unchecked
def test_the_compiled_objective_has_the_same_gradient():
    torch._dynamo.reset()
    objective = make_objective(num_layers=1)
    compiled = torch.compile(objective, backend="aot_eager")
    for count in (6, 9):
        batch = SHAPE_PADDER(make_batch(make_rows(count, seed=count)))
        expected, actual = (gradients(objective, run, batch) for run in (objective, compiled))
        assert_close(actual, expected, 1e-10)


def alternating(count, kind=PackedTokens):
    """Batches of few and of many rows alternately, padded to two shapes."""
    fill = ShapePadder(rows=64, tokens=64, longest=8, padded_rows=16, padded_longest=8)
    return [fill(make_batch(make_rows((3, 30)[n % 2], seed=n, longest=3), kind)) for n in range(count)]


@pytest.mark.parametrize("kind", [PackedTokens, PaddedTokens])
def test_alternating_batches_have_two_shapes(kind):
    assert len({shape_of(batch) for batch in alternating(40, kind)}) == 2


def eager_step(objective, optimizer, batch, *, learning_rate, clip_norm):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.zero_grad()
    loss = objective(map_tensors(torch.Tensor.cuda, batch))
    (loss / batch.num_tokens).backward()
    torch.nn.utils.clip_grad_norm_(objective.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@pytest.mark.cuda
@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["transformer", *RECURRENT])
def test_graphed_steps_equal_eager_steps(name):
    batches = alternating(4 * (WARM_UP + 2), PackedTokens if name == "transformer" else PaddedTokens)
    shapes = [shape_of(batch) for batch in batches]
    assert len(set(shapes)) == 2
    assert all(shapes.count(shape) >= WARM_UP + 3 for shape in set(shapes)), "each shape is replayed, not captured only"
    make = make_objective if name == "transformer" else partial(make_recurrent, name)
    eager, graphed = (make(torch.float32).cuda() for _ in range(2))
    # a large eps: gradients that are 0 except for rounding, such as that of the keys' bias, must not be magnified
    optimizers = [
        torch.optim.AdamW(objective.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-3, weight_decay=0.0, fused=True)
        for objective in (eager, graphed)
    ]
    step = GraphedStep(graphed, graphed, optimizers[1], clip_norm=1.0)
    for number, batch in enumerate(batches):
        # another rate at every step: a graph must use the current one, not the captured one
        rate = 1e-3 * (1 + number % 3)
        expected = eager_step(eager, optimizers[0], batch, learning_rate=rate, clip_norm=1.0)
        actual = step(batch, num_tokens=batch.num_tokens, learning_rate=rate).item()
        assert actual == pytest.approx(expected, rel=1e-3), f"loss at step {number}"
        for (name, ours), theirs in zip(graphed.named_parameters(), eager.parameters(), strict=True):
            error = ((ours - theirs).norm() / theirs.norm().clamp_min(1e-3)).item()
            assert error < 1e-3, f"{name} is off by {error:.2e} after step {number}"
    assert all(captured.graph is not None for captured in step.shapes.values())


@pytest.mark.cuda
@pytest.mark.unchecked
def test_shapes_beyond_the_maximum_run_eagerly(monkeypatch):
    monkeypatch.setattr(graph, "MOST_SHAPES", 1)
    batches = alternating(2 * (WARM_UP + 2))
    eager, (_, step) = make_objective(torch.float32).cuda(), graphed()
    optimizer = torch.optim.AdamW(eager.parameters(), fused=True)
    for batch in batches:
        expected = eager_step(eager, optimizer, batch, learning_rate=1e-3, clip_norm=1e9)
        actual = step(batch, num_tokens=batch.num_tokens, learning_rate=1e-3).item()
        assert actual == pytest.approx(expected, rel=1e-3)
    assert len(step.shapes) == 1


def graphed():
    """An objective, and a graphed step of it."""
    objective = make_objective(torch.float32).cuda()
    optimizer = torch.optim.AdamW(objective.parameters(), fused=True)
    return objective, GraphedStep(objective, objective, optimizer)


@pytest.mark.cuda
@pytest.mark.unchecked
def test_decoding_between_replays_uses_the_current_weights():
    objective, step = graphed()
    source = map_tensors(torch.Tensor.cuda, PaddedTokens.from_lists([[4, 5, 6, EOS], [7, EOS]]))
    tokens, batch, model = torch.tensor([BOS, BOS]).cuda(), alternating(1)[0], objective.model
    for _ in range(WARM_UP + 3):
        objective.train()
        step(batch, num_tokens=batch.num_tokens, learning_rate=1e-2)
        objective.eval()
        # detached: while logits with a graph are alive, no step can be captured
        usual = decode(model, tokens, source)[1].logits.detach()
        with torch.inference_mode():
            fused = fuse(model)
            assert not fused.unsupported_reasons()
            step_fused = decode(fused, tokens, source)[1]
        torch.testing.assert_close(step_fused.logits, usual, rtol=1e-3, atol=1e-3)


def decode(model, tokens, source):
    """The source as encoded, and the first step over it."""
    encoded = model.encode(source)
    return encoded, model.step(tokens, model.start(encoded), encoded)


@pytest.mark.cuda
@pytest.mark.unchecked
def test_the_same_batch_again_gives_the_loss_of_the_current_weights():
    """A graph with a stale batch, stale weights or a stale count of tokens would give other losses."""
    objective, step = graphed()
    for number, batch in enumerate(alternating(2 * (WARM_UP + 3))):
        with torch.no_grad():
            expected = objective(map_tensors(torch.Tensor.cuda, batch)).item()
        assert step(batch, num_tokens=batch.num_tokens, learning_rate=1e-3).item() == pytest.approx(
            expected, rel=1e-3
        ), f"step {number}"


@pytest.mark.cuda
@pytest.mark.unchecked
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
def test_the_compiled_objective_on_cuda_has_the_same_gradient(half, dynamic):
    """At sizes for which a GPU uses its usual kernels; all errors are reported if one is too large."""
    torch._dynamo.reset()
    sizes = {"hidden_size": 128, "num_layers": 2, "num_heads": 4, "feed_forward_size": 256, "norm": "pre"}
    objective = make_objective(torch.float32, **sizes).cuda()
    exact = make_objective(torch.float64, **sizes).cuda()
    compiled = torch.compile(objective, dynamic=dynamic)
    fill = ShapePadder(rows=64, tokens=512, longest=8)
    for count, longest in ((40, 12), (90, 30), (40, 12)):
        batch = map_tensors(torch.Tensor.cuda, fill(make_batch(make_rows(count, seed=count, longest=longest))))
        truth = gradients(exact, exact, batch)
        results = []
        for run in (compiled, objective):
            # a separate region each, because autocast caches copies of the weights within one
            with torch.autocast("cuda", torch.bfloat16, enabled=half):
                results.append(gradients(objective, run, batch))
        assert_errs_no_more(*results, truth, slack=1e-2 if half else 1e-4)


@pytest.mark.cuda
@pytest.mark.unchecked
def test_compiled_training_equals_eager_training():
    """Step by step on the same batches: where the gradients agree, a different loss would come from the update."""
    torch._dynamo.reset()
    losses = {}
    for name in ("eager", "compiled"):
        objective = make_objective(torch.float32).cuda()
        run = torch.compile(objective) if name == "compiled" else objective
        optimizer = torch.optim.AdamW(objective.parameters(), lr=1e-3, fused=True)
        losses[name] = [
            eager_step(run, optimizer, batch, learning_rate=1e-3, clip_norm=1.0) for batch in alternating(20)
        ]
    assert losses["compiled"] == pytest.approx(losses["eager"], rel=1e-2)
