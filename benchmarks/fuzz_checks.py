"""What the fuzz checks of a case: context, weights, gradients and NaN of every way to run it, against the reference.

Errors are compared with a bound of rounding: a score of size S errs by a few S eps, and weights by as much relative to
themselves. Where a tiny error changes the result by a step (two largest scores of hard attention that are equal but for
rounding, a key at the edge of a window), a query is left out, and counted.
"""

import traceback
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

import regard
from benchmarks.fuzz_cases import Case, build_mask
from benchmarks.fuzz_reference import WEIGHTS, distances_to_prediction, mask_of, parameter, scores_of
from regard.kernels.additive import operator
from regard.kernels.dot import blocked

PACKAGE = Path(regard.__file__).parent
SLACK = 4.0
"""Roundings that one score, one weight and their sum are granted."""
VAGUE = 0.2
"""A bound of the weights' error from which a comparison says nothing."""


@dataclass(eq=False)
class Expected:
    """The reference's results of a case, and the bounds of rounding."""

    case: Case

    @cached_property
    def inputs(self) -> list[Tensor]:
        """The rounded inputs in float64."""
        return [tensor.detach().double().requires_grad_() for tensor in self.case.tensors]

    @cached_property
    def allowed(self) -> Tensor:
        """The mask, written out."""
        return mask_of(self.case.mask, self.case.shape)

    @cached_property
    def scores(self) -> Tensor:
        """The scores of every pair."""
        scores = scores_of(self.case.score_name, self.case.score, *self.inputs[:2])
        return scores.expand(self.case.shape)

    @cached_property
    def weights(self) -> Tensor:
        """The weights of every pair."""
        options = {"align": self.case.align, "steps": self.case.steps, "queries": self.inputs[0]}
        return WEIGHTS[self.case.align_name](self.scores, self.allowed, **options)

    @cached_property
    def context(self) -> Tensor:
        """The weighted sums."""
        return self.weights @ self.inputs[2]

    @cached_property
    def eps(self) -> float:
        """The rounding of one number."""
        return float(torch.finfo(self.case.tensors[0].dtype).eps)

    @cached_property
    def score_error(self) -> float:
        """A bound of the rounding of one score: numbers of a product are as large as the norms of its sides."""
        score, (queries, keys) = self.case.score, (tensor.detach() for tensor in self.inputs[:2])
        left, right = (largest(side.norm(dim=-1).nan_to_num(0, 0, 0)) for side in (queries, keys))
        norms = {
            name: float(part.detach().double().norm())
            for name, part in getattr(score, "named_parameters", lambda: ())()
        }
        name = self.case.score_name
        if name == "cosine":
            size = abs(score.scale)
        elif name == "gaussian":
            size = (float(parameter(score, "width").abs().max()) * (left + right)) ** 2
        elif name in ("additive", "concat"):
            size = norms.pop("energy") * sum(norms.values()) * (left + right) * 3
        elif name == "location":
            size = norms["position_proj.weight"] * left
        elif "general" in name:
            size = (norms["query_proj.weight"] * left + norms.get("query_proj.bias", 0.0)) * right
        else:
            size = max(abs(getattr(score, "scale", 1.0)), 1.0) * left * right + right
        return SLACK * self.eps * (1 + size)

    @cached_property
    def weight_error(self) -> float:
        """A bound of the rounding of one weight."""
        error = self.score_error
        scores = torch.where(self.allowed, self.scores.detach(), 0.0).clamp(min=0.0)
        if self.case.align_name == "ratio":
            totals = scores.sum(-1)
            error = error * scores.shape[-1] / float(totals[totals > 0].min()) if (totals > 0).any() else error
        if self.case.align_name == "local_predictive":
            error += SLACK * self.eps * (1 + self.case.shape[-1])
        return min(error, 1.0)

    @cached_property
    def unclear(self) -> Tensor:
        """Queries whose result may change by a step: (.., Q)."""
        name, error = self.case.align_name, 2 * self.score_error
        scores = torch.where(self.allowed, self.scores.detach(), -torch.inf)
        if scores.shape[-1] == 0:
            return torch.zeros(scores.shape[:-1], dtype=torch.bool)
        if name.startswith("hard") and scores.shape[-1] > 1:
            first, second = scores.topk(2, dim=-1).values.unbind(-1)
            return (first - second <= error) & (second > -torch.inf)
        if name == "ratio":
            return scores.amax(-1).abs() <= 10 * error
        if name == "local_predictive":
            distance = distances_to_prediction(scores, self.allowed, self.case.align, self.inputs[0]).detach()
            near_edge = (distance.abs() - self.case.align.window).abs() <= self.weight_error
            return near_edge.expand(scores.shape).any(-1)
        return torch.zeros(scores.shape[:-1], dtype=torch.bool)

    @property
    def sum_error(self) -> float:
        """A bound of the rounding of a sum over the keys, relative to its largest term."""
        return (SLACK + self.case.shape[-1] ** 0.5) * self.eps

    def context_error(self) -> float:
        """A bound of the rounding of one number of the context."""
        terms = 1 if self.case.align_name == "softmax" else self.case.shape[-1]
        return largest(self.inputs[2].detach().nan_to_num(0)) * (self.weight_error * terms + self.sum_error)

    def gradients(self, direction: Tensor) -> list[Tensor]:
        """Gradients of queries, keys and values in this direction of the context."""
        return list(
            torch.autograd.grad(
                (self.context * direction).sum(),
                self.inputs,
                retain_graph=True,
                materialize_grads=True,
                allow_unused=True,
            )
        )

    def gradient_errors(self, direction: Tensor) -> list[float]:
        """Bounds of the rounding of one number of these gradients."""
        *_, num_queries, num_keys = self.case.shape
        rows = (
            self.case.shape[:-2].numel()
            if isinstance(self.case.shape, torch.Size)
            else torch.Size(self.case.shape[:-2]).numel()
        )
        # the largest gradient of a weight, and what a score's gradient adds to one number of a query or a key
        weight_grad = largest(direction.abs() @ self.inputs[2].detach().abs().mT)
        terms = 1 if self.case.align_name == "softmax" else num_keys
        slopes = [self.slope(0), self.slope(1)]
        error = 4 * (self.weight_error + self.sum_error) * terms * weight_grad
        return [
            error * slopes[0] * rows,
            error * slopes[1] * num_queries * rows,
            4 * self.weight_error * terms * num_queries * rows * largest(direction),
        ]

    def slope(self, side: int) -> float:
        """The largest derivative of a score by a number of the queries (0) or the keys (1), by a few random sums."""
        slope = 0.0
        for seed in range(3):
            generator = torch.Generator().manual_seed(seed)
            signs = torch.randint(0, 2, self.case.shape, generator=generator).double() * 2 - 1
            finite = torch.where(self.scores.isfinite(), self.scores, 0.0)
            (gradient,) = torch.autograd.grad(
                (finite * signs).sum(), self.inputs[side], retain_graph=True, allow_unused=True, materialize_grads=True
            )
            slope = max(slope, largest(gradient))
        return slope + 1


def largest(tensor: Tensor) -> float:
    """The largest absolute value, 0 of none."""
    return float(tensor.abs().max()) if tensor.numel() else 0.0


@dataclass
class Findings:
    """Counts by category, and a line for each problem."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, category: str, case: Any, detail: str = "") -> None:
        """One problem."""
        self.counts[category] += 1
        self.problems.append(f"{category}: case {getattr(case, 'seed', '-')}: {case} {detail}".strip())


def check_case(case: Case, findings: Findings) -> None:
    """Formed, fused and, where the batch allows it, mapped by torch.vmap."""
    findings.counts["cases"] += 1
    with ExitStack() as stack:
        # additive attention of any size is fused, and blocks of queries are short
        stack.enter_context(patch.dict(operator.WORTH_IT, cpu=0))
        stack.enter_context(patch.object(operator, "FEWEST", 1))
        if case.block:
            stack.enter_context(patch.object(blocked, "BLOCK", case.block))
            stack.enter_context(patch.object(blocked, "WORTH_IT", 0))
        expected = Expected(case)
        for mode in ("formed", "fused", *(("mapped",) if can_be_mapped(case) else ())):
            try:
                run_mode(case, expected, findings, mode)
            # whatever else a call raises is a finding
            except Exception as error:
                if mode == "mapped" and is_sentence(error) and case.align_name in ("sparsemax", "entmax"):
                    findings.counts["refusals by sentence"] += 1
                    continue
                findings.add("unexpected errors", case, f"{mode}: {type(error).__name__}: {str(error)[:200]}")


def is_sentence(error: Exception) -> bool:
    """Whether an error is a plain sentence of the package's own code."""
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    return (
        type(error) in (ValueError, TypeError)
        and Path(place).is_relative_to(PACKAGE)
        and str(error).endswith(".")
        and " " in str(error)
    )


def run_mode(case: Case, expected: Expected, findings: Findings, mode: str) -> None:
    """One way to run a case, forward and backward."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in case.tensors]
    if mode == "mapped":
        mask = build_mask(case.mask)
        context = torch.func.vmap(lambda *sides: case.attend(*sides, mask=mask).context)(*inputs)
    else:
        attended = case.attend(*inputs, return_weights=mode == "formed")
        context = attended.context
        if mode == "formed":
            compare_weights(case, expected, findings, attended.weights)
    compare(case, expected, findings, context=context, inputs=inputs, mode=mode)


def compare_weights(case: Case, expected: Expected, findings: Findings, weights: Tensor) -> None:
    """Shape, and numbers where they are clear."""
    if weights.shape != expected.weights.shape:
        findings.add("wrong weights", case, f"shape {tuple(weights.shape)}")
        return
    both = ~(weights.isnan() | expected.weights.isnan() | expected.unclear.unsqueeze(-1))
    difference = (weights.double() - expected.weights.detach()).abs()[both]
    if difference.numel() and float(difference.max()) > expected.weight_error + SLACK * expected.eps:
        findings.add("wrong weights", case, f"by {float(difference.max()):.3g}, bound {expected.weight_error:.3g}")


def compare(
    case: Case, expected: Expected, findings: Findings, *, context: Tensor, inputs: list[Tensor], mode: str
) -> None:
    """NaN, numbers and gradients of a context."""
    findings.counts[f"{mode} contexts"] += 1
    exact = expected.context.detach()
    if context.shape != exact.shape or context.dtype != case.tensors[2].dtype:
        findings.add("wrong contexts", case, f"{mode}: shape {tuple(context.shape)}, {context.dtype}")
        return
    # the product with values that are NaN is NaN at a weight of 0 as well, and a kernel may leave such keys out
    if case.broken != "nan value":
        compare_nan(case, expected, findings, context.detach(), mode)
    clear = ~(context.isnan() | exact.isnan() | expected.unclear.unsqueeze(-1))
    findings.counts["unclear queries"] += int(expected.unclear.sum())
    if expected.weight_error > VAGUE:
        findings.counts["vague comparisons"] += 1
        return
    difference = (context.detach().double() - exact).abs()[clear]
    if difference.numel() and float(difference.nan_to_num(0).max()) > expected.context_error():
        findings.add(
            "wrong contexts", case,
            f"{mode}: by {float(difference.nan_to_num(0).max()):.3g}, bound {expected.context_error():.3g}",
        )  # fmt: skip
    if not case.broken and not case.align_name.startswith("hard") and not expected.unclear.any() and context.numel():
        compare_gradients(case, expected, findings, context=context, inputs=inputs, mode=mode)


def compare_nan(case: Case, expected: Expected, findings: Findings, context: Tensor, mode: str) -> None:
    """NaN exactly where the formula has it; where scores overflow, kernels may have it in their whole query."""
    ours, theirs = context.isnan(), expected.context.isnan()
    theirs_here = theirs & ~expected.unclear.unsqueeze(-1)
    if (theirs_here & ~ours).any():
        findings.add("hidden NaN", case, mode)
    may_create = case.broken in ("inf query", "huge")
    if (ours & ~theirs).any() and not may_create:
        findings.add("created NaN", case, mode)
    empty = ~expected.allowed.any(-1)
    if (context[empty] != 0).any():
        findings.add("wrong contexts", case, f"{mode}: a query that may attend to nothing is not 0")


def compare_gradients(
    case: Case, expected: Expected, findings: Findings, *, context: Tensor, inputs: list[Tensor], mode: str
) -> None:
    """Gradients of queries, keys and values in a random direction."""
    generator = torch.Generator().manual_seed(case.seed)
    direction = torch.randn(context.shape, generator=generator, dtype=torch.float64)
    ours = torch.autograd.grad(
        (context * direction.to(context.dtype)).sum(), inputs, materialize_grads=True, allow_unused=True
    )
    bounds = expected.gradient_errors(direction)
    findings.counts["gradients"] += len(ours)
    for name, actual, exact, bound in zip(
        ("queries", "keys", "values"), ours, expected.gradients(direction), bounds, strict=True
    ):
        if not actual.numel():
            continue
        error = float((actual.double() - exact).abs().max())
        # `not <=`, so that NaN is a difference too
        if not error <= bound:
            findings.add("wrong gradients", case, f"{mode}: {name} by {error:.3g}, bound {bound:.3g}")


def can_be_mapped(case: Case) -> bool:
    """All tensors share a first dimension, and the mask is the same for every element of it."""
    shapes = [tensor.shape[:-2] for tensor in case.tensors]
    same = all(shape and len(shape) == len(shapes[0]) and shape[0] == shapes[0][0] > 0 for shape in shapes)
    return same and not has_tensors(case.mask)


def has_tensors(expression: Any) -> bool:
    """Whether an expression may differ within the batch."""
    return isinstance(expression, Tensor) or (
        isinstance(expression, tuple) and any(has_tensors(part) for part in expression[1:])
    )
