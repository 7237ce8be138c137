"""The chunked loss equals the formula, gradients too, whatever the chunk."""

import pytest
import torch

from regard.contracts import PAD
from regard.kernels.cross_entropy import chunked, chunked_cross_entropy, plain_cross_entropy
from regard.kernels.cross_entropy.chunked import loss_and_gradient

SIZE, VOCAB = 6, 11


def make_inputs(dtype, *, bias, shape=(3, 5)):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(*shape, SIZE, generator=generator, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCAB, SIZE, generator=generator, dtype=dtype, requires_grad=True)
    added = torch.randn(VOCAB, generator=generator, dtype=dtype, requires_grad=True) if bias else None
    labels = torch.randint(0, VOCAB, shape, generator=generator)
    labels[0, :2] = PAD
    return features, weight, added, labels


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_chunked_equals_the_formula(monkeypatch, label_smoothing, bias, rows):
    monkeypatch.setitem(chunked.CHUNK_ELEMENTS, "cpu", rows * VOCAB)
    monkeypatch.setattr(chunked, "SMALLEST_CHUNK", 1)
    features, weight, added, labels = make_inputs(torch.float64, bias=bias)
    actual, gradients = [], []
    for kernel in (plain_cross_entropy, chunked_cross_entropy):
        loss = kernel(features, weight, added, labels, ignored=PAD, label_smoothing=label_smoothing)
        actual.append(loss)
        inputs = [one for one in (features, weight, added) if one is not None]
        gradients.append(torch.autograd.grad(loss / 7, inputs))
    assert actual[1].item() == pytest.approx(actual[0].item(), rel=1e-12)
    for plain, fast in zip(*gradients, strict=True):
        assert fast.allclose(plain, atol=1e-12)


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"labels": torch.ones(1, dtype=torch.long)}, "labels have shape"),
        ({"weight": torch.zeros(SIZE, VOCAB)}, "vocabulary, size"),
        ({"label_smoothing": 1.5}, "between 0 and 1"),
        ({"label_smoothing": -0.1}, "between 0 and 1"),
    ],
)
def test_mismatched_shapes_raise_errors(changed, said):
    features, weight, added, labels = make_inputs(torch.float32, bias=True)
    with pytest.raises(ValueError, match=said):
        chunked_cross_entropy(
            features, changed.get("weight", weight), added, changed.get("labels", labels), ignored=PAD,
            label_smoothing=changed.get("label_smoothing", 0.0),
        )  # fmt: skip


def test_float64_stays_so_under_autocast():
    features, weight, added, labels = make_inputs(torch.float64, bias=True)
    expected = chunked_cross_entropy(features, weight, added, labels, ignored=PAD)
    with torch.autocast("cpu", torch.bfloat16):
        actual = chunked_cross_entropy(features, weight, added, labels, ignored=PAD)
    assert actual.dtype == torch.float64 and actual.item() == expected.item()


def test_without_gradients_none_are_formed(monkeypatch):
    requested = []

    def record(*arguments, gradient):
        requested.append(gradient)
        return loss_and_gradient(*arguments, gradient=gradient)

    monkeypatch.setattr(chunked, "loss_and_gradient", record)
    features, weight, added, labels = make_inputs(torch.float32, bias=True)
    with torch.no_grad():
        chunked_cross_entropy(features, weight, added, labels, ignored=PAD)
    chunked_cross_entropy(features, weight, added, labels, ignored=PAD)
    assert requested == [False, True]


def test_a_row_without_a_label_may_contain_nan():
    logits, labels = torch.randn(3, VOCAB), torch.tensor([4, PAD, 5])
    logits[1] = torch.nan
    loss, grad = loss_and_gradient(logits, labels, PAD, 0.1, gradient=True)
    assert loss.isfinite() and grad.isfinite().all() and not grad[1].any()


@pytest.mark.unchecked
def test_torch_compile_uses_the_plain_loss():
    torch._dynamo.reset()
    features, weight, added, labels = make_inputs(torch.float64, bias=True)
    compiled = torch.compile(chunked_cross_entropy, fullgraph=True, backend="aot_eager")
    actual = compiled(features, weight, added, labels, ignored=PAD)
    assert actual.item() == pytest.approx(chunked_cross_entropy(features, weight, added, labels, ignored=PAD).item())


@pytest.mark.parametrize("ignored", [-100, VOCAB - 1])
def test_any_label_may_be_the_ignored_one(ignored):
    features, weight, added, labels = make_inputs(torch.float64, bias=True)
    labels[1] = ignored
    losses = [
        kernel(features, weight, added, labels, ignored=ignored).item()
        for kernel in (plain_cross_entropy, chunked_cross_entropy)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)


def test_by_hand():
    features, weight, added, labels = make_inputs(torch.float64, bias=True)
    log_probs = torch.log_softmax(features @ weight.T + added, dim=-1)
    expected = 0.0
    for row in range(3):
        for place in range(5):
            if labels[row, place] != PAD:
                smooth = torch.full((VOCAB,), 0.2 / VOCAB, dtype=torch.float64)
                smooth[labels[row, place]] += 0.8
                expected -= (smooth * log_probs[row, place]).sum().item()
    actual = chunked_cross_entropy(features, weight, added, labels, ignored=PAD, label_smoothing=0.2)
    assert actual.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_errs_at_most_twice_as_much_as_plain_torch(dtype):
    exact = [
        None if one is None else one.detach().clone().requires_grad_(one.is_floating_point())
        for one in make_inputs(torch.float64, bias=True, shape=(4, 9))
    ]
    errors = []
    truth = plain_cross_entropy(*exact, ignored=PAD, label_smoothing=0.1)
    true_gradients = torch.autograd.grad(truth, exact[:3])
    for kernel in (plain_cross_entropy, chunked_cross_entropy):
        inputs = [one.detach().to(dtype).requires_grad_() for one in exact[:3]]
        loss = kernel(*inputs, exact[3], ignored=PAD, label_smoothing=0.1)
        gradients = torch.autograd.grad(loss, inputs)
        errors.append(
            [(one.double() - true).norm().item() for one, true in zip(gradients, true_gradients, strict=True)]
        )
    for plain, fast in zip(*errors, strict=True):
        assert fast <= 2 * plain + 1e-6


@pytest.mark.cuda
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [11, 5003, 30_000])
def test_on_a_gpu(monkeypatch, dtype, smoothing, vocab):
    monkeypatch.setitem(chunked.CHUNK_ELEMENTS, "cuda", 64 * vocab)
    features, weight, bias = torch.randn(201, 64), torch.randn(vocab, 64) / 8, torch.randn(vocab)
    labels = torch.randint(1, vocab, (201,)).cuda()
    labels[::7] = PAD
    actual = []
    for kernel, kind in (
        (plain_cross_entropy, torch.float64),
        (plain_cross_entropy, dtype),
        (chunked_cross_entropy, dtype),
    ):
        inputs = [one.to(dtype).cuda().to(kind).requires_grad_() for one in (features, weight, bias)]
        loss = kernel(*inputs, labels, ignored=PAD, label_smoothing=smoothing)
        actual.append([loss.double(), *(one.double() for one in torch.autograd.grad(loss / 7, inputs))])
    for true, plain, fast in zip(*actual, strict=True):
        assert (fast - true).norm() <= 1.5 * (plain - true).norm() + 2e-6 * true.norm()


def test_no_labels_no_loss_and_no_nan():
    features, weight, added, labels = make_inputs(torch.float32, bias=True)
    loss = chunked_cross_entropy(features, weight, added, torch.zeros_like(labels), ignored=PAD)
    loss.backward()
    assert loss.item() == 0.0
    assert features.grad.abs().max() == 0.0


def test_under_autocast_and_without_gradients():
    features, weight, added, labels = make_inputs(torch.float32, bias=True)
    plain = plain_cross_entropy(features, weight, added, labels, ignored=PAD)
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_cross_entropy(features, weight, added, labels, ignored=PAD)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(plain.item(), rel=2e-2)
    loss.backward()
    assert weight.grad.dtype == torch.float32
    with torch.no_grad():
        actual = chunked_cross_entropy(features, weight, added, labels, ignored=PAD).item()
        assert actual == pytest.approx(plain.item(), rel=1e-5)
