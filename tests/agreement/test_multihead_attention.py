"""regard.interop.MultiheadAttention gives the numbers of torch's class over the whole grid of its arguments.

Output, weights and the gradient of every input and parameter each err at most twice as much, in float32 and against
torch's class in float64, as torch's class does itself.
"""

import itertools
import sys

import pytest
import torch

from tests.interop.cases import (
    ASKS,
    EMPTY_MASKS,
    FLAGS,
    HINTED,
    LAYOUTS,
    MASKS,
    PLAIN,
    SOURCES,
    in_dtype,
    make_case,
    make_empty_masks,
    make_masks,
    make_pair,
)

FLOOR = 4 * torch.finfo(torch.float32).eps
"""A few units in the last place of the largest number: rounding is allowed also where torch is exact."""
COMBINATIONS = len(SOURCES) * len(LAYOUTS) * len(FLAGS) * len(MASKS) * len(ASKS)

pytestmark = pytest.mark.filterwarnings("ignore:Support for mismatched")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Matrices this small are slower on many threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(module, case, call, dtype, *, from_weights=True):
    """Output and weights, and the gradients of every input and parameter under a random sum of them."""
    leaves = {id(tensor): tensor.to(dtype).requires_grad_() for tensor in (case.query, case.key, case.value)}
    query, key, value = (leaves[id(tensor)] for tensor in (case.query, case.key, case.value))
    output, weights = module(query, key, value, **in_dtype(call, dtype))
    results = [output] if weights is None else [output, weights]
    generator = torch.Generator().manual_seed(7)
    seeds = [torch.randn(result.shape, generator=generator, dtype=torch.float64).to(dtype) for result in results]
    last = len(results) if from_weights else 1
    gradients = torch.autograd.grad(results[:last], [*leaves.values(), *module.parameters()], seeds[:last])
    return [result.detach() for result in results], list(gradients)


def errors(actual, exact):
    """The largest error of each tensor."""
    for one, other in zip(actual, exact, strict=True):
        assert one.shape == other.shape
    return torch.stack([(one - other).abs().max() for one, other in zip(actual, exact, strict=True)])


def scales(results, gradients):
    """The largest number of each result, and of all gradients: a small one may be a difference of large ones."""
    largest = max(gradient.abs().max() for gradient in gradients)
    return torch.stack([result.abs().max() for result in results] + [largest] * len(gradients))


def compare(exact, theirs, ours):
    """torch's errors and ours, the latter at most twice the former."""
    floor = FLOOR * scales(*exact)
    theirs, ours = (errors(results + gradients, exact[0] + exact[1]) for results, gradients in (theirs, ours))
    assert (ours <= 2 * theirs + floor).all(), f"ours err by {ours.tolist()}, torch's by {theirs.tolist()}"
    return theirs.sum().item(), ours.sum().item()


def make_three(build):
    """torch's module in float64, and torch's and ours in float32 with the same numbers."""
    theirs, ours = make_pair(build, torch.float32)
    exact, _ = make_pair(build)
    exact.load_state_dict(theirs.state_dict())
    return exact, theirs, ours


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("source", SOURCES)
def test_errs_at_most_twice_as_much_as_torch(source, layout):
    checked, totals = 0, [0.0, 0.0]
    for flags in FLAGS:
        case = make_case(source, layout, flags)
        exact, theirs, ours = make_three(case.build)
        for (attn_kind, padding_kind), ask in itertools.product(MASKS, ASKS):
            call = meant = {**ask, **make_masks(case, attn_kind, padding_kind)}
            if attn_kind in HINTED and case.extra_keys and not ask["need_weights"]:
                # torch's hint masks the extra keys here, its mask does not
                meant = {**call, "is_causal": False}
            pair = compare(
                run(exact, case, meant, torch.float64),
                run(theirs, case, meant, torch.float32),
                run(ours, case, call, torch.float32),
            )
            totals = [total + error for total, error in zip(totals, pair, strict=True)]
            checked += 1
    assert checked == COMBINATIONS // len(SOURCES) // len(LAYOUTS)
    assert totals[1] <= 1.1 * totals[0], f"over {checked} combinations ours err by {totals[1]}, torch's by {totals[0]}"


def test_the_grid_covers_every_option(capsys):
    assert COMBINATIONS > 9000
    with capsys.disabled():
        sys.stdout.write(f"\n{COMBINATIONS} combinations of torch.nn.MultiheadAttention's arguments\n")


@pytest.mark.parametrize("mask_kind", EMPTY_MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_queries_without_keys_give_zeros_where_torch_gives_nan(layout, mask_kind):
    """torch's fused path gives zeros there with finite gradients, which are the reference."""
    for source, bias in itertools.product(SOURCES, (True, False)):
        case = make_case(source, layout, {**PLAIN, "bias": bias})
        exact, theirs, ours = make_three(case.build)
        masks = make_empty_masks(case, mask_kind)
        fused, formed = {**masks, "need_weights": False}, {**masks, "average_attn_weights": False}
        truth = run(exact, case, fused, torch.float64)
        compare(truth, run(theirs, case, fused, torch.float32), run(ours, case, fused, torch.float32))
        (output, _), gradients = run(ours, case, formed, torch.float32, from_weights=False)
        assert (errors([output, *gradients], truth[0] + truth[1]) <= 8 * FLOOR * scales(*truth)).all()

        (_, weights), gradients = run(ours, case, formed, torch.float32)
        assert all(gradient.isfinite().all() for gradient in gradients)
        (_, exact_weights), _ = run(exact, case, formed, torch.float64)
        empty = exact_weights.isnan()
        assert empty.any()
        assert (weights[empty] == 0).all()
        assert (weights - exact_weights).masked_fill(empty, 0.0).abs().max() <= 8 * FLOOR


@pytest.mark.parametrize("source", ["self", "memory"])
@pytest.mark.parametrize("ask", ASKS, ids=str)
def test_agrees_with_the_inference_path(source, ask):
    """In eval mode and without gradients torch uses a fused kernel."""
    case = make_case(source, "batch-first", PLAIN)
    exact, theirs, ours = (module.eval() for module in make_three(case.build))
    for attn_kind, padding_kind in MASKS:
        call = {**ask, **make_masks(case, attn_kind, padding_kind)}
        truth, their_results, our_results = (
            infer(module, case, call, dtype)
            for module, dtype in ((exact, torch.float64), (theirs, torch.float32), (ours, torch.float32))
        )
        floor = FLOOR * torch.stack([result.abs().max() for result in truth])
        assert (errors(our_results, truth) <= 2 * errors(their_results, truth) + floor).all()


def infer(module, case, call, dtype):
    with torch.no_grad():
        # equal tensors stay the same object
        converted = {id(tensor): tensor.to(dtype) for tensor in (case.query, case.key, case.value)}
        tensors = (converted[id(tensor)] for tensor in (case.query, case.key, case.value))
        return [result for result in module(*tensors, **in_dtype(call, dtype)) if result is not None]
