"""Greedy search: the most probable token, at every step.

y_t = argmax_y p(y | y_<t, x)
"""

from dataclasses import dataclass

from torch import Tensor

from regard.contracts import EOS
from regard.decoding.hypothesis import Hypothesis, Task
from regard.decoding.top import best
from regard.decoding.walk import walk


@dataclass(frozen=True)
class Greedy:
    """The fastest search; one answer a source, ranked by its log-probability."""

    def run(self, task: Task) -> list[list[Hypothesis]]:
        """One hypothesis for each source."""
        return walk(task, most_probable)


def most_probable(logits: Tensor, numbers: Tensor, step: int) -> Tensor:
    """The best token; <pad> and <bos>, the first two columns, are never said."""
    return best(logits[:, EOS:]) + EOS
