"""Comparisons whose AssertionError is a sentence with the numbers and the tolerance."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


def assert_close(actual: Tensor, expected: Tensor, tolerance: float, claim: str, *, rtol: float | None = None) -> None:
    """Fail unless |actual - expected| <= tolerance + rtol |expected| everywhere; NaN equals nothing.

    `claim` begins the sentence of the error: "Dot: the fused context equals the formed one". `rtol` is the tolerance,
    at most 1e-5, unless it is set.
    """
    if actual.shape != expected.shape:
        raise AssertionError(f"{claim}, but the shapes are {tuple(actual.shape)} and {tuple(expected.shape)}.")
    # in float64, so that the comparison adds no rounding
    actual, expected = (tensor.detach().cpu().double() for tensor in (actual, expected))
    relative = min(tolerance, 1e-5) if rtol is None else rtol
    # most comparisons end here; the numbers below are for the message
    if torch.allclose(actual, expected, rtol=relative, atol=tolerance):
        return
    difference = (actual - expected).abs()
    # the difference of equal infinities is NaN, so these are compared directly
    wrong = ~((difference <= tolerance + relative * expected.abs()) | (actual == expected))
    raise AssertionError(
        f"{claim}, but {int(wrong.sum())} of {wrong.numel()} numbers differ, by up to "
        f"{difference[wrong].max():.3g}; the tolerance is {tolerance:g}."
    )


def assert_equal(actual: Tensor, expected: Tensor, claim: str) -> None:
    """Fail unless every number is the same."""
    assert_close(actual, expected, 0.0, claim)


def assert_finite(tensors: Iterable[Tensor | None], claim: str) -> None:
    """Fail if a tensor, where there is one, has a NaN or an infinity."""
    for tensor in tensors:
        if tensor is not None and not tensor.isfinite().all():
            wrong = int((~tensor.isfinite()).sum())
            raise AssertionError(f"{claim}, but {wrong} of {tensor.numel()} numbers are NaN or infinite.")


def assert_zero(tensor: Tensor, claim: str) -> None:
    """Fail unless every number is exactly 0."""
    # NaN is not equal to 0, so it fails as well
    if (tensor != 0).any():
        wrong = tensor[tensor != 0].detach()
        raise AssertionError(
            f"{claim}, but {wrong.numel()} of {tensor.numel()} numbers are not 0, the largest is "
            f"{wrong.abs().max():.3g}; the tolerance is 0."
        )


def relative_error(actual: Tensor, exact: Tensor) -> float:
    """|actual - exact| / |exact|, in the Euclidean norm."""
    actual, exact = actual.detach().double(), exact.detach().double()
    # an exact result of zeros has no relative error
    return float((actual - exact).norm() / exact.norm().clamp_min(1e-30))


def name_of(part: Any) -> str:
    """The name of a class or a function, or of an object's class."""
    return str(getattr(part, "__name__", type(part).__name__))


def run_checks(checks: Iterable[Callable[[Any], None]], case: Any) -> None:
    """Run each check on the case from the same seed; the caller's random numbers stay as they are."""
    for check in checks:
        # the same seed for each check, which can then be repeated alone
        with torch.random.fork_rng():
            torch.manual_seed(0)
            check(case)
