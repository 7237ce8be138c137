"""The contract of a mask: one rule over positions, the same on every path.

    check_mask(my_mask)
    check_mask(lambda lengths: causal() & MyPadding(lengths))

MASK_CHECKS compare the methods of the rule with each other, on 3 batch elements, 5 queries and 7 keys; then attention
with this mask passes the grid of regard.testing.attention, fused and formed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.masks import ComposableMask, as_mask, causal, prefix
from regard.contracts import Grid
from regard.testing.attention import GRID_CHECKS
from regard.testing.cases import (
    BATCH_SIZE,
    DTYPES,
    LENGTHS,
    NUM_KEYS,
    NUM_QUERIES,
    AttentionCase,
    Combination,
    MaskFactory,
    build_alignment,
    build_score,
    key_size_of,
    write_out,
)
from regard.testing.comparison import name_of, run_checks

FIRST_KEYS = (0, 5)
"""Positions of the first key: a cache may have dropped the keys before it."""


@dataclass(frozen=True, eq=False)
class MaskCase:
    """A mask, and its name in errors."""

    name: str
    mask: ComposableMask

    def __str__(self) -> str:
        return self.name

    def grid(self, first_key: int = 0) -> Grid:
        """The positions of all queries and keys; the last query is aligned with the last key."""
        # queries end where the keys end, also when the first key is not at position 0
        shape, first_query = (BATCH_SIZE, NUM_QUERIES, NUM_KEYS), first_key + NUM_KEYS - NUM_QUERIES
        return Grid.of(shape, device=torch.device("cpu"), first_query=first_query, first_key=first_key)

    def allowed(self, first_key: int = 0) -> Tensor:
        """The mask written out."""
        return self.mask.allowed(self.grid(first_key)).expand(BATCH_SIZE, NUM_QUERIES, NUM_KEYS)


def check_written_out(case: MaskCase) -> None:
    """`allowed` gives booleans that broadcast to the shape of the grid."""
    allowed, shape = case.mask.allowed(case.grid()), (BATCH_SIZE, NUM_QUERIES, NUM_KEYS)
    assert allowed.dtype == torch.bool, f"{case}: allowed gives {allowed.dtype}, expected torch.bool."
    # from the last dimension on, as in broadcasting; dimensions in front may be missing
    sizes = zip(reversed(allowed.shape), reversed(shape), strict=False)
    fits = allowed.ndim <= len(shape) and all(size in (1, expected) for size, expected in sizes)
    assert fits, f"{case}: allowed has shape {tuple(allowed.shape)}, which does not broadcast to {shape}."


def check_single_positions(case: MaskCase) -> None:
    """A structured mask gives at single positions, as a kernel evaluates it, what it gives on the whole grid."""
    # a mask without structure has no rule for a single position
    if not case.mask.structured:
        return
    for first_key in FIRST_KEYS:
        whole, grid = case.allowed(first_key), case.grid(first_key)
        for element in range(BATCH_SIZE):
            for query, query_position in enumerate(grid.queries.flatten()):
                for key, key_position in enumerate(grid.keys.flatten()):
                    # tensors without dimensions, as a kernel uses them
                    single = Grid(leading=(torch.tensor(element),), queries=query_position, keys=key_position)
                    actual, expected = case.mask.allowed(single).item(), whole[element, query, key].item()
                    assert actual == expected, (
                        f"{case}: at batch element {element}, query position {query_position} and key position "
                        f"{key_position} the mask alone gives {actual}, on the whole grid {expected}."
                    )


def check_span(case: MaskCase) -> None:
    """No allowed key lies outside the span of its queries."""
    for first_key in FIRST_KEYS:
        grid, allowed = case.grid(first_key), case.allowed(first_key)
        positions, keys = grid.queries.flatten().tolist(), grid.keys.flatten()
        for first in range(NUM_QUERIES):
            for last in range(first, NUM_QUERIES):
                # [low, high), where None is no bound
                low, high = case.mask.span(positions[first], positions[last])
                outside = torch.zeros(NUM_KEYS, dtype=torch.bool)
                if low is not None:
                    outside |= keys < low
                if high is not None:
                    outside |= keys >= high
                # a slice of queries of all batch elements, against the keys outside
                hidden = int((allowed[:, first : last + 1] & outside).sum())
                assert not hidden, (
                    f"{case}: the span of the queries {positions[first]} to {positions[last]} is [{low}, {high}), but "
                    f"{hidden} allowed pairs lie outside."
                )


def check_interval(case: MaskCase) -> None:
    """Where a part of the mask has an interval, its allowed keys are exactly those of the interval."""
    for first_key in FIRST_KEYS:
        grid = case.grid(first_key)
        for part in case.mask.parts():
            interval = part.interval(grid.queries.flatten())
            if interval is None:
                continue
            low, high = interval
            inside = torch.ones(NUM_QUERIES, NUM_KEYS, dtype=torch.bool)
            if low is not None:
                # one bound per query, compared with every key
                inside &= grid.keys >= low[:, None]
            if high is not None:
                inside &= grid.keys < high[:, None]
            allowed = part.allowed(grid).expand(BATCH_SIZE, NUM_QUERIES, NUM_KEYS)
            wrong = int((allowed != inside).sum())
            assert not wrong, f"{case}: {wrong} pairs are allowed by the interval or by the mask, not by both."


def check_parts(case: MaskCase) -> None:
    """A pair is allowed exactly where every part of the mask allows it."""
    together = torch.ones(BATCH_SIZE, NUM_QUERIES, NUM_KEYS, dtype=torch.bool)
    for part in case.mask.parts():
        together = together & part.allowed(case.grid())
    wrong = int((together != case.allowed()).sum())
    assert not wrong, f"{case}: {wrong} pairs differ between the mask and its parts together."


def check_declarations(case: MaskCase) -> None:
    """`per_example`, `per_query` and `is_triangle` agree with the mask."""
    mask, allowed = case.mask, case.allowed()
    # a mask without structure declares nothing about batch elements
    if mask.structured and not mask.per_example:
        assert (allowed == allowed[:1]).all(), f"{case}: per_example is False, but batch elements differ."
    if not mask.per_query:
        assert (allowed == allowed[:, :1]).all(), f"{case}: per_query is False, but queries differ."
    if mask.is_triangle:
        triangle = write_out(causal())
        assert (allowed == triangle).all(), f"{case}: is_triangle is True, but it is not the causal triangle."


def check_algebra(case: MaskCase) -> None:
    """`&`, `|` and `~` give the and, the or and the not of what is allowed."""
    mask, allowed = case.mask, case.allowed()
    # two rules and a tensor, without the dimension of the batch
    for other in (causal(), prefix(3), write_out(causal())[0]):
        there = write_out(other)
        for name, actual, expected in (
            ("&", mask & other, allowed & there),
            ("|", mask | other, allowed | there),
            ("~", ~mask, ~allowed),
        ):
            wrong = int((write_out(actual) != expected).sum())
            assert not wrong, f"{case}: {name} with {name_of(other)} is wrong at {wrong} of {expected.numel()} pairs."


MASK_CHECKS = (
    check_written_out,
    check_single_positions,
    check_span,
    check_interval,
    check_parts,
    check_declarations,
    check_algebra,
)
"""Checks of the methods of a mask."""


def check_mask(
    mask: ComposableMask | Tensor | Callable[[Tensor], ComposableMask | Tensor],
    *,
    scores: Iterable[str] = ("scaled_dot", "gaussian", "additive"),
    dtypes: tuple[torch.dtype, ...] = DTYPES,
) -> None:
    """Check a mask, and attention with it; raise AssertionError where it fails.

    The mask is a rule, a boolean tensor that broadcasts to (3, 5, 7), or a function from the lengths of the batch (a
    tensor of 7, 4 and 0) to one of these.

    Example:
        >>> from regard.attention.masks import window
        >>> check_mask(window(2), scores=["dot"])
    """
    factory = mask_factory(mask)
    whole = factory(torch.tensor(LENGTHS))
    assert whole is not None, "the function gives no mask for the lengths 7, 4 and 0."
    rule = as_mask(whole)
    name = name_of(rule)
    run_checks(MASK_CHECKS, MaskCase(name, rule))
    for score in scores:
        case = AttentionCase(
            score=build_score(score),
            align=build_alignment("softmax"),
            key_size=key_size_of(score),
            masks={name: factory},
            dtypes=dtypes,
        )
        for dtype in dtypes:
            run_checks(GRID_CHECKS, Combination(case=case, mask_name=name, dtype=dtype))


def mask_factory(mask: ComposableMask | Tensor | Callable[[Tensor], ComposableMask | Tensor]) -> MaskFactory:
    """A fixed mask as a function of the lengths: the mask itself for the batch, written out for one batch element."""
    # a function is used as it is
    if not isinstance(mask, ComposableMask | Tensor):
        return mask
    # a batch of one has the lengths of element 1, as in check_batch_of_one
    return lambda lengths: mask if len(lengths) == BATCH_SIZE else write_out(mask)[1:2]
