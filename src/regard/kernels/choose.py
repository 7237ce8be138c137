"""Which kernel serves a read, and why the others do not.

Paths are asked in order; the first without a reason against it is taken. Nothing is decided at import, and nothing by
looking at the data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from regard.kernels.additive import AdditiveRead, fused, read_additive_plain
from regard.kernels.dot import blocked, flex, folded, sdpa
from regard.kernels.dot.read import DotRead
from regard.kernels.dot.reference import read_plain


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
    "flex": (flex.refusals, flex.read_flex),
    "blocked": (blocked.refusals, blocked.read_blocked),
    "folded": (folded.refusals, folded.read_folded),
    "sdpa": (sdpa.refusals, sdpa.read_sdpa),
    "plain": (lambda read: (), read_plain),
}

ADDITIVE_PATHS: dict[str, Path] = {
    "sine": (fused.sine_refusals, lambda read: fused.read_with_lse(read, "sine")[0]),
    "exact": (fused.exact_refusals, lambda read: fused.read_with_lse(read, "exact")[0]),
    "blocked": (fused.blocked_refusals, lambda read: fused.read_with_lse(read, "blocked")[0]),
    "plain": (lambda read: (), read_additive_plain),
}


def paths_of(read: DotRead | AdditiveRead) -> dict[str, Path]:
    """Those that may serve such a read, in order."""
    return DOT_PATHS if isinstance(read, DotRead) else ADDITIVE_PATHS


def choose(read: DotRead | AdditiveRead) -> Choice:
    """The first path that has nothing against this read."""
    refused: list[tuple[str, tuple[str, ...]]] = []
    for path, (refusals, _) in paths_of(read).items():
        reasons = tuple(refusals(read))
        if not reasons:
            return Choice(path, tuple(refused))
        refused.append((path, reasons))
    raise AssertionError("the plain path refuses nothing")


def read_fused(read: DotRead | AdditiveRead) -> Tensor:
    """The context by the first path that has nothing against it."""
    for refusals, run in paths_of(read).values():
        if not any(True for _ in refusals(read)):
            return run(read)
    raise AssertionError("the plain path refuses nothing")
