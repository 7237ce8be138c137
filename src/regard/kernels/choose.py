"""Which kernel serves a read, and why the others do not.

Paths are asked in order; the first without a reason against it is taken. Nothing is decided at import, and nothing by
looking at the data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from regard.kernels.dot import blocked, flex, sdpa
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


DOT_PATHS: dict[str, tuple[Callable[[DotRead], Iterable[str]], Callable[[DotRead], Tensor]]] = {
    "flex": (flex.refusals, flex.read_flex),
    "blocked": (blocked.refusals, blocked.read_blocked),
    "sdpa": (sdpa.refusals, sdpa.read_sdpa),
    "plain": (lambda read: (), read_plain),
}


def choose(read: DotRead) -> Choice:
    """The first path that has nothing against this read."""
    refused: list[tuple[str, tuple[str, ...]]] = []
    for path, (refusals, _) in DOT_PATHS.items():
        reasons = tuple(refusals(read))
        if not reasons:
            return Choice(path, tuple(refused))
        refused.append((path, reasons))
    raise AssertionError("the plain path refuses nothing")


def read_dot(read: DotRead) -> Tensor:
    """softmax(scale * queries . keys + biases) @ values by the first path that has nothing against it."""
    for refusals, run in DOT_PATHS.values():
        if not any(True for _ in refusals(read)):
            return run(read)
    raise AssertionError("the plain path refuses nothing")
