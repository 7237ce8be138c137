"""Which kernel serves a read, and why the others do not.

Paths are tried in order; the first without a reason against it is taken. Nothing is decided at import, and nothing by
looking at the data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from regard.kernels.additive import operator as fused
from regard.kernels.additive.reference import AdditiveRequest, attend_additive_plain
from regard.kernels.dot import blocked, flex, sdpa
from regard.kernels.dot.reference import DotRequest, attend_plain
from regard.kernels.request import Read


@dataclass(frozen=True)
class Choice:
    """The path taken, and every reason against each path that was asked before it."""

    path: str
    refused: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        lines = [f"path: {self.path}"]
        lines += [f"  not {path}: {reason}" for path, reasons in self.refused for reason in reasons]
        return "\n".join(lines)


Path: TypeAlias = tuple[Callable[[Any], Iterable[str]], Callable[[Any], Tensor]]
"""What speaks against a read, and how it is done."""

DOT_PATHS: dict[str, Path] = {
    "flex": (flex.unsupported_reasons, flex.attend_flex),
    "blocked": (blocked.unsupported_reasons, blocked.attend_blocked),
    "sdpa": (sdpa.unsupported_reasons, sdpa.attend_sdpa),
    "plain": (lambda read: (), attend_plain),
}

ADDITIVE_PATHS: dict[str, Path] = {
    "sine": (fused.sine_unsupported_reasons, lambda read: fused.attend_with_lse(read, "sine")[0]),
    "exact": (fused.exact_unsupported_reasons, lambda read: fused.attend_with_lse(read, "exact")[0]),
    "blocked": (fused.blocked_unsupported_reasons, lambda read: fused.attend_with_lse(read, "blocked")[0]),
    "plain": (lambda read: (), attend_additive_plain),
}


def paths_of(read: Read) -> dict[str, Path]:
    """Those made for such a read, in order."""
    kinds = {DotRequest: DOT_PATHS, AdditiveRequest: ADDITIVE_PATHS}
    return kinds[type(read)]


def choose(read: Read) -> Choice:
    """The first path that has nothing against this read."""
    refused: list[tuple[str, tuple[str, ...]]] = []
    for path, (unsupported_reasons, _) in paths_of(read).items():
        reasons = tuple(unsupported_reasons(read))
        if not reasons:
            return Choice(path, tuple(refused))
        refused.append((path, reasons))
    raise AssertionError("the plain path supports every request")


def attend_fused(read: Read) -> Tensor:
    """The context by the first path that has nothing against it."""
    for unsupported_reasons, run in paths_of(read).values():
        if not any(True for _ in unsupported_reasons(read)):
            return run(read)
    raise AssertionError("the plain path supports every request")
