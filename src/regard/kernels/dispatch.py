"""Choice of the kernel for an attention request, with every reason against the others.

Backends are tried in order; the first without a reason against it runs. The choice depends on shapes, dtypes, devices
and modes only, never on the values of tensors.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from regard.kernels.additive import operator as fused
from regard.kernels.additive.reference import AdditiveRequest, attend_additive_plain
from regard.kernels.dot import blocked, flex, sdpa
from regard.kernels.dot.reference import DotRequest, attend_plain
from regard.kernels.request import AttentionRequest


@dataclass(frozen=True)
class BackendChoice:
    """The backend that runs, and every reason against each one that was tried before it."""

    backend: str
    refused: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        lines = [f"backend: {self.backend}"]
        lines += [f"  not {backend}: {reason}" for backend, reasons in self.refused for reason in reasons]
        return "\n".join(lines)


Backend: TypeAlias = tuple[Callable[[Any], Iterable[str]], Callable[[Any], Tensor]]
"""Reasons against a request, and the function that computes its context."""

DOT_PATHS: dict[str, Backend] = {
    "flex": (flex.unsupported_reasons, flex.attend_flex),
    "blocked": (blocked.unsupported_reasons, blocked.attend_blocked),
    "sdpa": (sdpa.unsupported_reasons, sdpa.attend_sdpa),
    "plain": (lambda request: (), attend_plain),
}

ADDITIVE_PATHS: dict[str, Backend] = {
    "sine": (fused.sine_unsupported_reasons, lambda request: fused.attend_with_lse(request, "sine")[0]),
    "exact": (fused.exact_unsupported_reasons, lambda request: fused.attend_with_lse(request, "exact")[0]),
    "blocked": (fused.blocked_unsupported_reasons, lambda request: fused.attend_with_lse(request, "blocked")[0]),
    "plain": (lambda request: (), attend_additive_plain),
}


def backends_for(request: AttentionRequest) -> dict[str, Backend]:
    """The backends for a kind of request, in the order in which they are tried."""
    kinds = {DotRequest: DOT_PATHS, AdditiveRequest: ADDITIVE_PATHS}
    return kinds[type(request)]


def choose(request: AttentionRequest) -> BackendChoice:
    """The backend that `attend_fused` runs for this request."""
    refused: list[tuple[str, tuple[str, ...]]] = []
    for backend, (unsupported_reasons, _) in backends_for(request).items():
        reasons = tuple(unsupported_reasons(request))
        if not reasons:
            return BackendChoice(backend, tuple(refused))
        refused.append((backend, reasons))
    raise AssertionError("the plain backend supports every request")


def attend_fused(request: AttentionRequest) -> Tensor:
    """The context, by the first backend without a reason against it."""
    for unsupported_reasons, attend in backends_for(request).values():
        # generators yield reasons lazily: the first one decides
        if not any(True for _ in unsupported_reasons(request)):
            return attend(request)
    raise AssertionError("the plain backend supports every request")
