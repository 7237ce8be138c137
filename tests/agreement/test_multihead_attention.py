"""regard.compat.MultiheadAttention gives the numbers of torch's class over the whole grid of its arguments.

Output, weights and the gradient of every input and parameter each err at most twice as much, in float32 and against
torch's class in float64, as torch's class does itself.
"""

import copy
import itertools
import sys

import pytest
import torch

from tests.compat.cases import ASKS, FLAGS, LAYOUTS, MASKS, SOURCES, in_dtype, make_case, make_masks, make_pair

FLOOR = 4 * torch.finfo(torch.float32).eps
"""A few units in the last place of the largest number: where torch happens to be exact, rounding is still allowed."""
COMBINATIONS = len(SOURCES) * len(LAYOUTS) * len(FLAGS) * len(ASKS) * len(MASKS)

pytestmark = pytest.mark.filterwarnings("ignore:Support for mismatched")


def run(module, case, call, dtype):
    """Output, weights, and the gradients of every input and parameter under one random sum of both."""
    module.zero_grad()
    leaves = {}
    for tensor in (case.query, case.key, case.value):
        if id(tensor) not in leaves:
            leaves[id(tensor)] = tensor.detach().to(dtype).requires_grad_()
    query, key, value = (leaves[id(tensor)] for tensor in (case.query, case.key, case.value))
    output, weights = module(query, key, value, **in_dtype(call, dtype))
    results = [output] if weights is None else [output, weights]
    generator = torch.Generator().manual_seed(7)
    seeds = [torch.randn(result.shape, generator=generator, dtype=torch.float64).to(dtype) for result in results]
    wanted = [*leaves.values(), *module.parameters()]
    return [result.detach() for result in results] + list(torch.autograd.grad(results, wanted, seeds))


def errors(found, exact):
    """The largest error of each tensor."""
    assert [one.shape for one in found] == [one.shape for one in exact]
    return torch.stack([(one - other).abs().max() for one, other in zip(found, exact, strict=True)])


def reference_call(case, call):
    """What torch means: its is_causal hides the extra keys from everyone unless weights are asked for."""
    hides = case.extra_keys and not call["need_weights"]
    return {**call, "is_causal": False} if hides else call


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("source", SOURCES)
def test_errs_at_most_twice_as_much_as_torch(source, layout, record_property):
    checked, worst = 0, 0.0
    for flags in FLAGS:
        case = make_case(source, layout, flags)
        exact_module, _ = make_pair(case.build)
        theirs, ours = make_pair(case.build, torch.float32)
        for module in (theirs, ours):
            module.load_state_dict(exact_module.state_dict())
        exact_module.load_state_dict(theirs.state_dict())
        for (attn_kind, padding_kind), ask in itertools.product(MASKS, ASKS):
            call = {**ask, **make_masks(case, attn_kind, padding_kind)}
            meant = reference_call(case, call)
            exact = run(exact_module, case, meant, torch.float64)
            their_errors = errors(run(theirs, case, meant, torch.float32), exact)
            our_errors = errors(run(ours, case, call, torch.float32), exact)
            floor = FLOOR * torch.stack([tensor.abs().max() for tensor in exact])
            assert (our_errors <= 2 * their_errors + floor).all(), (flags, ask, attn_kind, padding_kind)
            worst = max(worst, ((our_errors - floor) / their_errors.clamp_min(1e-30)).max().item())
            checked += 1
    record_property("combinations", checked)
    record_property("worst ratio above the floor", worst)
    assert checked == COMBINATIONS // len(SOURCES) // len(LAYOUTS)
