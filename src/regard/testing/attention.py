"""The contracts of a score and of an alignment: the same checks that every entry of SCORES and ALIGNMENTS passes.

    check_score(Manhattan(), query_size=8)
    check_alignment(MyAlignment())

Each runs lists of smaller checks, which can be called alone. GRID_CHECKS take a Combination (score x alignment x mask x
precision), CASE_CHECKS an AttentionCase (score x alignment), SCORE_CHECKS and ALIGNMENT_CHECKS a case of which they use
one part. The fused path is compared with the formed one over the whole grid.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention import ALIGNMENTS, SCORES
from regard.contracts import Alignment, Score
from regard.testing.alignments import ALIGNMENT_CHECKS
from regard.testing.cases import (
    DTYPES,
    LENGTHS,
    MASK_CASES,
    QUERY_SIZE,
    TOLERANCE,
    AttentionCase,
    Combination,
    MaskFactory,
    build_alignment,
    build_score,
    key_size_of,
)
from regard.testing.comparison import assert_close, assert_finite, assert_zero, relative_error, run_checks
from regard.testing.execution import CASE_CHECKS
from regard.testing.scores import SCORE_CHECKS

PARTS = ("context", "gradient of the queries", "gradient of the keys", "gradient of the values")
NUM_DRAWS = 16
SHARING_INFINITY = ("ratio", "softmax", "sparsemax", "entmax")
"""Alignments of the table in which keys whose scores are +inf share the weight of their query."""


def check_weights(combination: Combination) -> None:
    """Weights have the shape of the scores, are finite and not negative, and sum to one if declared."""
    allowed, attended = combination.allowed, combination.formed
    weights, context = attended.weights, attended.context
    tolerance = TOLERANCE[combination.dtype]
    assert weights is not None, f"{combination}: return_weights=True returns no weights."
    assert weights.shape == allowed.shape, (
        f"{combination}: the weights have shape {tuple(weights.shape)}, expected {tuple(allowed.shape)}."
    )
    types = {weights.dtype, context.dtype}
    assert types == {combination.dtype}, f"{combination}: weights and context have the dtypes {types}."
    assert_finite((weights, context), f"{combination}: weights and context are finite")
    assert (weights >= 0).all(), f"{combination}: a weight is negative: {weights.min():.3g}."
    # without the declaration nothing is promised about the sum
    if getattr(combination.case.align, "sums_to_one", False):
        # summed in float64, which adds no rounding to that of the weights
        total = weights.double().sum(-1)
        # a query without any weight is allowed: ratio over scores of 0, a local window past the last key
        total = torch.where(total.abs() < tolerance, torch.ones_like(total), total)
        assert_close(total, torch.ones_like(total), 5 * tolerance, f"{combination}: the weights of a query sum to one")


def check_masked_weights(combination: Combination) -> None:
    """A masked key has weight exactly 0; a query that may attend to nothing has weights and context of zeros."""
    allowed, attended = combination.allowed, combination.formed
    assert attended.weights is not None, f"{combination}: return_weights=True returns no weights."
    assert_zero(attended.weights[~allowed], f"{combination}: a masked key has weight 0")
    # (batch, queries)
    empty = ~allowed.any(-1)
    assert_zero(attended.weights[empty], f"{combination}: a query that may attend to nothing has weights of zeros")
    assert_zero(attended.context[empty], f"{combination}: a query that may attend to nothing has a context of zeros")


def check_context(combination: Combination) -> None:
    """The context is weights @ values."""
    attended = combination.formed
    assert attended.weights is not None, f"{combination}: return_weights=True returns no weights."
    # float64, so that only the rounding of `attend` is measured
    product = attended.weights.double() @ combination.inputs[2].double()
    assert_close(
        attended.context, product, 5 * TOLERANCE[combination.dtype], f"{combination}: the context is weights @ values"
    )


def check_masked_gradients(combination: Combination) -> None:
    """Gradients are finite, and exactly 0 for keys, values and queries that the mask excludes entirely."""
    assert_masked_gradients(combination, combination.gradients)


def assert_masked_gradients(combination: Combination, gradients: list[Tensor]) -> None:
    """The assertions of check_masked_gradients, for the formed and for the fused path."""
    allowed = combination.allowed
    # gradients of parameters follow after these three
    queries, keys, values = gradients[:3]
    assert_finite(gradients, f"{combination}: gradients are finite")
    assert_zero(keys[~allowed.any(-2)], f"{combination}: a key that no query may attend to has gradient 0")
    assert_zero(values[~allowed.any(-2)], f"{combination}: a value that no query may attend to has gradient 0")
    assert_zero(queries[~allowed.any(-1)], f"{combination}: a query that may attend to nothing has gradient 0")


def check_masked_keys_have_no_effect(combination: Combination) -> None:
    """Padding never changes the answer: keys and values that no query may attend to may hold any finite number."""
    case, dtype = combination.case, combination.dtype
    queries, keys, values = case.inputs(dtype)
    _, other_keys, other_values = case.inputs(dtype, seed=9)
    # (batch, keys, 1), to broadcast over the size of a key
    unused = ~combination.allowed.any(-2).unsqueeze(-1)
    # three times as large, so that a key that leaks changes the result clearly
    inputs = (queries, torch.where(unused, 3 * other_keys, keys), torch.where(unused, other_values, values))
    attended = case.attend(inputs, mask=combination.mask, return_weights=True)
    claim = f"{combination}: masked keys and values have no effect"
    assert_close(attended.context, combination.formed.context, 5 * TOLERANCE[dtype], claim)


def check_batch_of_one(combination: Combination) -> None:
    """A batch element alone gives what it gives in a batch."""
    case, dtype = combination.case, combination.dtype
    # element 1 has 4 of 7 keys, so that its padding is part of the check
    inputs = tuple(tensor[1:2] for tensor in case.inputs(dtype))
    attended = case.attend(inputs, mask=combination.mask_of(LENGTHS[1:2]), return_weights=True)
    claim = f"{combination}: a batch element alone gives what it gives in a batch"
    assert_close(attended.context, combination.formed.context[1:2], 5 * TOLERANCE[dtype], claim)


def check_fused_equals_formed(combination: Combination) -> None:
    """Without `return_weights` the context and all gradients err at most twice as much as formed, against float64.

    In float64, which the formed path defines, they differ by at most 1e-10. Masked numbers are exactly 0 here too.
    """
    dtype = combination.dtype
    assert combination.fused.weights is None, f"{combination}: weights are returned without return_weights."
    empty = ~combination.allowed.any(-1)
    claim = f"{combination}: a query that may attend to nothing has a fused context of zeros"
    assert_zero(combination.fused.context[empty], claim)
    assert_masked_gradients(combination, combination.fused_gradients)
    # below a quarter of the rounding unit a difference is rounding alone
    floor = TOLERANCE[dtype] if dtype == torch.float64 else torch.finfo(dtype).eps / 4
    results = zip(fused_results(combination), formed_results(combination), strict=True)
    for number, (fused, formed) in enumerate(results):
        # by the triangle inequality a difference below the floor is within the allowance: exact numbers are not needed
        if torch.equal(fused, formed) or relative_error(fused, formed) <= floor:
            continue
        part = PARTS[number] if number < len(PARTS) else f"gradient of parameter {number - len(PARTS)}"
        # few numbers have errors that vary by chance, so that more draws decide where one exceeds the allowance
        for draws in (1, NUM_DRAWS):
            error, plain = errors_of(combination, number, draws)
            if error <= 2 * plain + floor:
                break
        # no number of draws was enough
        else:
            raise AssertionError(
                f"{combination}: the fused {part} has the relative error {error:.3g} against float64; the tolerance is "
                f"{2 * plain + floor:.3g}, twice the error of the formed path."
            )


def fused_results(combination: Combination) -> list[Tensor]:
    """Context and gradients of the fused path."""
    return [combination.fused.context, *combination.fused_gradients]


def formed_results(combination: Combination) -> list[Tensor]:
    """Context and gradients of the formed path."""
    return [combination.formed.context, *combination.gradients]


def errors_of(combination: Combination, number: int, draws: int) -> tuple[float, float]:
    """Relative errors against float64 of one result of the fused and of the formed path, over several inputs."""
    # `replace` makes new objects without cached results, so each draw has inputs of its own
    combinations = [combination, *(replace(combination, seed=100 + draw) for draw in range(1, draws))]
    exact = torch.stack([each.exact[number] for each in combinations])
    fused = torch.stack([fused_results(each)[number] for each in combinations])
    formed = torch.stack([formed_results(each)[number] for each in combinations])
    return relative_error(fused, exact), relative_error(formed, exact)


GRID_CHECKS = (
    check_weights,
    check_masked_weights,
    check_context,
    check_masked_gradients,
    check_masked_keys_have_no_effect,
    check_batch_of_one,
    check_fused_equals_formed,
)
"""Checks of one combination of score, alignment, mask and precision."""


def check_grid(case: AttentionCase) -> None:
    """Every check of GRID_CHECKS over the masks and precisions of the case."""
    for mask_name in case.masks:
        for dtype in case.dtypes:
            run_checks(GRID_CHECKS, Combination(case=case, mask_name=mask_name, dtype=dtype))


def check_score(
    score: Score,
    *,
    query_size: int = QUERY_SIZE,
    key_size: int | None = None,
    alignments: Iterable[str] = tuple(ALIGNMENTS),
    masks: Mapping[str, MaskFactory] = MASK_CASES,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
) -> None:
    """Check a score with alignments of the table, masks and precisions; raise AssertionError where it fails.

    The score is any object with `prepare`, `forward` and `lower`; a module is copied, so that the original keeps its
    precision and its gradients. It must serve at least 7 keys.

    Example:
        >>> from regard.attention.scores import ScaledDot
        >>> check_score(ScaledDot(), query_size=8, alignments=["softmax"])
    """
    cases = [
        alignment_case(score, name, query_size=query_size, key_size=key_size or query_size, masks=masks, dtypes=dtypes)
        for name in alignments
    ]
    # scores are checked without an alignment, so that one case is enough
    run_checks(SCORE_CHECKS, cases[0])
    for case in cases:
        check_grid(case)
        run_checks(CASE_CHECKS, case)


def alignment_case(
    score: Score,
    name: str,
    *,
    query_size: int,
    key_size: int,
    masks: Mapping[str, MaskFactory] = MASK_CASES,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
) -> AttentionCase:
    """A score with an alignment of the table."""
    return AttentionCase(
        score=score,
        align=build_alignment(name, query_size),
        query_size=query_size,
        key_size=key_size,
        # the weights of hard alignments are steps, which have no numerical derivative
        differentiable=not name.startswith("hard"),
        shares_infinity=name in SHARING_INFINITY,
        masks=masks,
        dtypes=dtypes,
    )


def check_alignment(
    align: Alignment,
    *,
    differentiable: bool = True,
    shares_infinity: bool = False,
    scores: Iterable[str] = tuple(SCORES),
    masks: Mapping[str, MaskFactory] = MASK_CASES,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
) -> None:
    """Check an alignment with scores of the table, masks and precisions; raise AssertionError where it fails.

    Queries have 8 numbers each, for alignments that use them. `differentiable` says that the weights are a smooth
    function of the scores, `shares_infinity` that keys whose scores are +inf share the weight of their query equally.

    Example:
        >>> from regard.attention.alignments import Softmax
        >>> check_alignment(Softmax(), shares_infinity=True, scores=["dot"])
    """
    cases = [
        AttentionCase(
            score=build_score(name),
            align=align,
            key_size=key_size_of(name),
            differentiable=differentiable,
            shares_infinity=shares_infinity,
            masks=masks,
            dtypes=dtypes,
        )
        for name in scores
    ]
    run_checks(ALIGNMENT_CHECKS, cases[0])
    for case in cases:
        check_grid(case)
        run_checks(CASE_CHECKS, case)
