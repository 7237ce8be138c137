"""Every check of a score, an alignment and a mask fails on an object that breaks it, and names what is wrong."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.attention.alignments import Sigmoid, Softmax
from regard.attention.masks import ComposableMask, causal
from regard.attention.scores import Dot
from regard.contracts import Aligned, Lowered
from regard.testing import (
    ALIGNMENT_CHECKS,
    CASE_CHECKS,
    GRID_CHECKS,
    MASK_CHECKS,
    SCORE_CHECKS,
    AttentionCase,
    Combination,
    MaskCase,
    check_alignment,
    check_mask,
    check_score,
)


class Formed(Dot):
    """A dot product that is never fused, for mutants of the definition."""

    def lower(self, queries, keys):
        return "it is changed"


class NoLower(nn.Module):
    def prepare(self, keys):
        return keys


class OneQuery(Formed):
    def forward(self, queries, keys):
        return super().forward(queries, keys)[..., :1, :]


class WrongScale(Dot):
    def lower(self, queries, keys):
        return Lowered(queries=queries, keys=keys, scale=1.01)


class NoReason(Dot):
    def lower(self, queries, keys):
        return ""


class CentredKeys(Formed):
    def prepare(self, keys):
        return keys - keys.mean(dim=-2, keepdim=True)


class DependsOnAllKeys(Formed):
    def forward(self, queries, keys):
        return super().forward(queries, keys / keys.abs().amax(dim=-2, keepdim=True).clamp_min(1e-6))


class DependsOnTheBatch(Formed):
    def forward(self, queries, keys):
        return super().forward(queries, keys) * (1 + queries.mean())


class WrongGradient(Formed):
    def forward(self, queries, keys):
        scores = super().forward(queries, keys)
        return 2 * scores - scores.detach()


class WrongFusedGradient(Dot):
    def lower(self, queries, keys):
        return Lowered(queries=2 * queries - queries.detach(), keys=keys)


class NotSaved(Formed):
    def __init__(self):
        super().__init__()
        self.width = torch.ones(8, dtype=torch.float64)

    def forward(self, queries, keys):
        return super().forward(queries * self.width.to(queries), keys)


class DependsOnAutocast(Formed):
    def forward(self, queries, keys):
        scores = super().forward(queries, keys)
        return scores * 0 if torch.is_autocast_enabled("cpu") else scores

    def lower(self, queries, keys):
        return Lowered(queries=queries, keys=keys)


class Overflows(Formed):
    def forward(self, queries, keys):
        scores = super().forward(queries, keys)
        return scores + scores.exp() - scores.exp()


class LowRank(nn.Module):
    """score(q, k) = (A q) . (B k): right, and NaN where products of both signs overflow."""

    def __init__(self):
        super().__init__()
        # every entry of the products counts, with both signs
        signs = torch.tensor([[1.0], [-1.0], [1.0]])
        self.query_matrix = nn.Parameter(signs * torch.linspace(0.5, 1.5, 8))
        self.key_matrix = nn.Parameter(torch.linspace(0.8, 1.2, 8) * torch.ones(3, 1))

    def prepare(self, keys):
        return keys @ self.key_matrix.T

    def forward(self, queries, keys):
        return (queries @ self.query_matrix.T) @ keys.mT

    def lower(self, queries, keys):
        return Lowered(queries=queries @ self.query_matrix.T, keys=keys)


class DropsLeadingDimension(Formed):
    def forward(self, queries, keys):
        scores = super().forward(queries, keys)
        return scores.mean(dim=0, keepdim=True) if scores.ndim == 4 else scores


class AddsLeadingDimension(Formed):
    def forward(self, queries, keys):
        scores = super().forward(queries, keys)
        return scores.unsqueeze(0) if scores.ndim == 4 else scores


class BreaksTheGraph(Formed):
    def forward(self, queries, keys):
        scores = super().forward(queries, keys)
        return scores * 2 if float(scores.sum()) > 0 else scores


class DependsOnTheDevice(Formed):
    def forward(self, queries, keys):
        return super().forward(queries, keys) * (2 if queries.is_cuda else 1)


class Changed(Softmax):
    """Softmax with a change of its weights."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, scores, mask=None, position_info=None):
        return Aligned(weights=self.change(super().forward(scores, mask).weights, scores))


class IgnoresTheMask(Softmax):
    def forward(self, scores, mask=None, position_info=None):
        return super().forward(scores)


class PlainSoftmax(Softmax):
    def forward(self, scores, mask=None, position_info=None):
        return Aligned(weights=scores.softmax(-1))


class ClaimsToIgnore(Sigmoid):
    ignores_row_constant = True


class NoDeclaration(nn.Module):
    def forward(self, scores, mask=None, position_info=None):
        return Softmax()(scores, mask)


class ChangedContext(AttentionCase):
    """Attention that adds a number to the context."""

    def attend(self, tensors, **options):
        attended = super().attend(tensors, **options)
        return replace(attended, context=attended.context + 1)


def case_of(part, kind=AttentionCase, **options):
    """A case whose score or alignment is the part."""
    is_alignment = isinstance(part, Softmax | Sigmoid | NoDeclaration)
    parts = {"score": Dot(), "align": part} if is_alignment else {"score": part, "align": Softmax()}
    return kind(**parts, **options)


def find(checks, name):
    (check,) = (check for check in checks if check.__name__ == name)
    return check


GRID_MUTANTS = [
    ("check_weights", Changed(lambda weights, scores: -weights), "a weight is negative"),
    ("check_weights", Changed(lambda weights, scores: weights / 2), "sum to one"),
    ("check_weights", Changed(lambda weights, scores: weights / 0), "weights and context are finite, but"),
    ("check_weights", Changed(lambda weights, scores: weights.half()), "have the dtypes"),
    ("check_masked_weights", IgnoresTheMask(), "a masked key has weight 0, but"),
    ("check_masked_gradients", Changed(lambda w, s: w + s - s.detach()), "that no query may attend to has gradient 0"),
    ("check_masked_keys_have_no_effect", DependsOnAllKeys(), "masked keys and values have no effect, but"),
    ("check_batch_of_one", DependsOnTheBatch(), "a batch element alone gives what it gives in a batch, but"),
    ("check_fused_equals_formed", WrongScale(), "the fused context has the relative error"),
    ("check_fused_equals_formed", WrongFusedGradient(), "the fused gradient of the queries has the relative error"),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("name", "part", "sentence"), GRID_MUTANTS)
def test_a_check_of_the_grid_fails(name, part, sentence, dtype):
    combination = Combination(case=case_of(part), mask_name="causal_and_padding", dtype=dtype)
    with pytest.raises(AssertionError, match=f"mask causal_and_padding, {str(dtype)[6:]}.*{sentence}"):
        find(GRID_CHECKS, name)(combination)


def test_the_context_must_be_weights_times_values():
    combination = Combination(case=case_of(Dot(), ChangedContext), mask_name="causal_and_padding", dtype=torch.float64)
    with pytest.raises(AssertionError, match=r"the context is weights @ values, but .* numbers differ, by up to 1;"):
        find(GRID_CHECKS, "check_context")(combination)
    with pytest.raises(AssertionError, match="has a context of zeros, but"):
        find(GRID_CHECKS, "check_masked_weights")(combination)


CASE_MUTANTS = [
    (CASE_CHECKS, "check_gradcheck", WrongGradient(), "the gradient of the formed path is not the numerical one"),
    (CASE_CHECKS, "check_gradcheck", WrongFusedGradient(), "the gradient of the fused path is not the numerical one"),
    (CASE_CHECKS, "check_saved_and_loaded", NotSaved(), "saved and loaded gives the same, but"),
    (CASE_CHECKS, "check_autocast", DependsOnAutocast(), "under autocast the fused context equals the formed one, but"),
    (CASE_CHECKS, "check_huge_scores", Overflows(), r"an input of \S+, return_weights=True: the context has .* NaN"),
    (CASE_CHECKS, "check_shapes", AddsLeadingDimension(), "have the shapes"),
    (
        SCORE_CHECKS,
        "check_score_protocol",
        DropsLeadingDimension(),
        r"have shape \(1, 3, 5, 7\), expected \(2, 3, 5, 7\)",
    ),
    (SCORE_CHECKS, "check_score_protocol", NoLower(), "NoLower is no Score: it has no lower"),
    (SCORE_CHECKS, "check_score_protocol", OneQuery(), r"OneQuery: the scores have shape \(1, 7\), expected \(5, 7\)"),
    (SCORE_CHECKS, "check_lowering", WrongScale(), "WrongScale: the scores of lower are those of forward, but"),
    (SCORE_CHECKS, "check_lowering", NoReason(), "lower returns an empty text"),
    (SCORE_CHECKS, "check_prepared_keys", CentredKeys(), "keys prepared in pieces are those prepared at once, but"),
    (ALIGNMENT_CHECKS, "check_alignment_protocol", NoDeclaration(), "it has no ignores_row_constant"),
    (ALIGNMENT_CHECKS, "check_row_constant", ClaimsToIgnore(), "ignores_row_constant is True, so a constant"),
    (ALIGNMENT_CHECKS, "check_infinite_scores", PlainSoftmax(), "infinite scores give finite weights, but"),
]


@pytest.mark.parametrize(("checks", "name", "part", "sentence"), CASE_MUTANTS)
def test_a_check_of_a_case_fails(checks, name, part, sentence):
    with pytest.raises(AssertionError, match=sentence):
        find(checks, name)(case_of(part))


def test_a_right_score_may_be_nan_where_its_products_overflow():
    case = case_of(LowRank())
    queries, keys, _ = case.inputs(torch.float32)
    queries[0, 0, 0] = keys[0, 1, 0] = 1e30
    score = case.parts(torch.float32)["score"]
    assert score(queries, score.prepare(keys)).isnan().sum() == 1
    find(CASE_CHECKS, "check_huge_scores")(case)


def test_without_keys_the_context_must_be_zeros():
    with pytest.raises(AssertionError, match="without any key the context is zeros"):
        find(CASE_CHECKS, "check_no_keys")(case_of(Dot(), ChangedContext))


def test_infinite_scores_must_share_the_weight_if_declared():
    first = Changed(lambda weights, scores: torch.eye(3)[weights.argmax(-1)].to(weights) * (weights > 0))
    with pytest.raises(AssertionError, match=r"keys whose scores are \+inf share the weight"):
        find(ALIGNMENT_CHECKS, "check_infinite_scores")(case_of(first, shares_infinity=True))


@pytest.mark.unchecked
def test_a_graph_break_fails():
    with pytest.raises(AssertionError, match="does not make one graph of it"):
        find(CASE_CHECKS, "check_compiled")(case_of(BreaksTheGraph()))


@pytest.mark.cuda
def test_different_numbers_on_cuda_fail():
    with pytest.raises(AssertionError, match="CUDA equals the CPU, but"):
        find(CASE_CHECKS, "check_cuda_equals_cpu")(case_of(DependsOnTheDevice()))


class Floats(ComposableMask):
    def allowed(self, grid):
        return (grid.keys <= grid.queries).float()


class Band(ComposableMask):
    """The keys from one before the query to the query."""

    def allowed(self, grid):
        return (grid.keys <= grid.queries) & (grid.keys >= grid.queries - 1)


class TooWide(Band):
    def allowed(self, grid):
        return super().allowed(grid).expand(2, 3, 5, 7)


class DependsOnTheGrid(Band):
    def allowed(self, grid):
        return grid.keys < grid.keys.max()


class NarrowSpan(Band):
    def span(self, first, last):
        return first, last + 1


class WrongInterval(Band):
    def interval(self, queries):
        return queries, queries + 1


class LostPart(Band):
    def parts(self):
        return (causal(),)


class DeniesElements(ComposableMask):
    def allowed(self, grid):
        return (grid.keys < 3) | (grid.leading[0] == 1)


class DeniesQueries(Band):
    @property
    def per_query(self):
        return False


class ClaimsTheTriangle(Band):
    @property
    def is_triangle(self):
        return True


class WrongNot(Band):
    def __invert__(self):
        return self


class WrongAnd(Band):
    def __and__(self, other):
        return self


MASK_MUTANTS = [
    ("check_written_out", Floats(), "allowed gives torch.float32, expected torch.bool"),
    ("check_written_out", TooWide(), "does not broadcast to"),
    ("check_single_positions", DependsOnTheGrid(), "the mask alone gives False, on the whole grid True"),
    ("check_span", NarrowSpan(), "allowed pairs lie outside"),
    ("check_interval", WrongInterval(), "are allowed by the interval or by the mask, not by both"),
    ("check_parts", LostPart(), "differ between the mask and its parts together"),
    ("check_declarations", DeniesElements(), "per_example is False, but batch elements differ"),
    ("check_declarations", DeniesQueries(), "per_query is False, but queries differ"),
    ("check_declarations", ClaimsTheTriangle(), "is_triangle is True, but it is not the causal triangle"),
    ("check_algebra", WrongNot(), "~ with"),
    ("check_algebra", WrongAnd(), "& with"),
]


@pytest.mark.parametrize(("name", "mask", "sentence"), MASK_MUTANTS)
def test_a_check_of_a_mask_fails(name, mask, sentence):
    with pytest.raises(AssertionError, match=f"the mutant.*{sentence}"):
        find(MASK_CHECKS, name)(MaskCase("the mutant", mask))


def test_every_check_has_a_mutant():
    named = {name for name, *_ in (*GRID_MUTANTS, *MASK_MUTANTS)} | {name for _, name, *_ in CASE_MUTANTS}
    alone = {"check_context", "check_no_keys", "check_compiled", "check_cuda_equals_cpu"}
    every = (*GRID_CHECKS, *CASE_CHECKS, *SCORE_CHECKS, *ALIGNMENT_CHECKS, *MASK_CHECKS)
    assert {check.__name__ for check in every} == named | alone


def test_the_checks_of_a_whole_object_fail():
    with pytest.raises(AssertionError, match="the scores of lower are those of forward"):
        check_score(WrongScale(), query_size=8)
    with pytest.raises(AssertionError, match="DependsOnAllKeys with Softmax, mask"):
        check_score(DependsOnAllKeys(), query_size=8, alignments=["softmax"])
    with pytest.raises(AssertionError, match="a masked key has weight 0"):
        check_alignment(IgnoresTheMask(), scores=["dot"])
    with pytest.raises(AssertionError, match="NarrowSpan: the span of the queries"):
        check_mask(NarrowSpan())


@pytest.mark.unchecked
def test_a_sound_object_passes():
    check_score(Dot(), query_size=6, alignments=["hard"])
    check_alignment(Softmax(), shares_infinity=True, scores=["dot"])


@pytest.mark.parametrize(
    "mask", [Band(), torch.rand(3, 5, 7) > 0.3, lambda lengths: causal()], ids=["own", "tensor", "factory"]
)
def test_a_sound_mask_passes(mask):
    check_mask(mask, scores=["scaled_dot"])


@pytest.mark.unchecked
def test_the_object_of_the_caller_is_unchanged():
    score, state = Formed().train(), torch.get_rng_state()
    check_score(score, query_size=8, alignments=["softmax"], dtypes=(torch.float32,))
    assert score.training and torch.equal(torch.get_rng_state(), state)
