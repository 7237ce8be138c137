"""Checks of an alignment alone: what it declares, and what it does with infinite scores."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention import attend
from regard.contracts import Alignment
from regard.testing.cases import QUERY_SIZE, VALUE_SIZE, AttentionCase, position_info
from regard.testing.comparison import assert_close, assert_finite, assert_zero, name_of

INFINITY = float("inf")
# one query per row: two keys at +inf, one at -inf, all at -inf, all at +inf, and both signs
INFINITE_SCORES = (
    (INFINITY, 1.0, INFINITY),
    (-INFINITY, 1.0, 2.0),
    (-INFINITY,) * 3,
    (INFINITY,) * 3,
    (INFINITY, -INFINITY, 0.0),
)


@dataclass(frozen=True)
class FixedScores:
    """A score that returns the same scores for any queries and keys."""

    scores: Tensor

    def prepare(self, keys: Tensor) -> Tensor:
        """The keys."""
        return keys

    def lower(self, queries: Tensor, keys: Tensor) -> str:
        """No lowering."""
        return "the scores are fixed"

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The fixed scores."""
        return self.scores


def check_alignment_protocol(case: AttentionCase) -> None:
    """The object has a call, and declares whether a constant per query matters."""
    name = name_of(case.align)
    # member by member, because isinstance would not name the one that is absent
    assert callable(case.align), f"{name} is no Align: it cannot be called."
    assert hasattr(case.align, "ignores_row_constant"), f"{name} is no Align: it has no ignores_row_constant."
    assert isinstance(case.align, Alignment), f"{name} is no Align."


def check_row_constant(case: AttentionCase) -> None:
    """Where `ignores_row_constant` is set, a constant added to all scores of a query leaves the weights as they are."""
    align = case.parts(torch.float64)["align"]
    if not align.ignores_row_constant:
        return
    queries, keys, values = case.inputs()
    # (batch, queries, keys)
    scores = torch.randn(queries.shape[0], queries.shape[1], keys.shape[1], dtype=torch.float64)
    # (batch, queries, 1): one constant per query
    constants = torch.randn(queries.shape[0], queries.shape[1], 1, dtype=torch.float64)
    weights = [
        attend(
            queries,
            keys,
            values,
            score=FixedScores(each),
            align=align,
            position_info=position_info(),
            return_weights=True,
        ).weights
        for each in (scores, scores + constants)
    ]
    assert weights[0] is not None, f"{name_of(align)}: return_weights=True returns no weights."
    assert weights[1] is not None, f"{name_of(align)}: return_weights=True returns no weights."
    claim = f"{name_of(align)}: ignores_row_constant is True, so a constant added to the scores changes no weight"
    assert_close(weights[1], weights[0], 1e-10, claim)


def check_infinite_scores(case: AttentionCase) -> None:
    """Infinite scores give finite weights and gradients; a key whose score is -inf has weight 0."""
    name, align = name_of(case.align), case.parts(torch.float64)["align"]
    scores = torch.tensor([INFINITE_SCORES], dtype=torch.float64, requires_grad=True)
    values = torch.randn(1, 3, VALUE_SIZE, dtype=torch.float64, requires_grad=True)
    queries = torch.randn(1, len(INFINITE_SCORES), QUERY_SIZE, dtype=torch.float64)
    attended = attend(
        queries,
        # FixedScores ignores the keys, only their number matters
        torch.randn(1, 3, 2, dtype=torch.float64),
        values,
        score=FixedScores(scores),
        align=align,
        position_info=position_info(),
        return_weights=True,
    )
    weights = attended.weights
    assert weights is not None, f"{name}: return_weights=True returns no weights."
    assert_finite((weights, attended.context), f"{name}: infinite scores give finite weights")
    assert_zero(weights[scores == -INFINITY], f"{name}: a key whose score is -inf has weight 0")
    # rows 0 and 3 of INFINITE_SCORES
    if case.shares_infinity:
        claim = f"{name}: keys whose scores are +inf share the weight"
        assert_close(weights[0, 0], weights.new_tensor([0.5, 0.0, 0.5]), 1e-8, claim)
        assert_close(weights[0, 3], weights.new_tensor([1 / 3] * 3), 1e-8, claim)
    # hard alignments have no gradient to the scores
    gradients = torch.autograd.grad(attended.context.sum(), (values, scores), allow_unused=True)
    assert gradients[0] is not None, f"{name}: the values have no gradient."
    assert_finite(gradients, f"{name}: infinite scores give finite gradients")


ALIGNMENT_CHECKS = (check_alignment_protocol, check_row_constant, check_infinite_scores)
"""Checks of an alignment without a score."""
