"""Beam search: the `size` best beginnings of an answer go on at every step.

A beginning that says <eos> is finished when it is among the `size` best of that step; the live ones keep their full
number. A source is done when `size` hypotheses are finished, or at its limit, where what is live is closed unfinished
and ranked after all that finished. Finished ones are ranked by

    score = log p(y | x) / lp(y),    lp(y) = ((5 + |y|) / 6) ^ alpha

Wu et al. 2016, section 7. https://arxiv.org/abs/1609.08144
|y| counts <eos>. Every token lowers log p, so without a penalty (alpha 0) short answers win. At alpha 1 the score is
close to the mean per token, which needs no tuning.

The rows of a source lie side by side (source * size + place), so that what the model read of the source is spread once
and never reordered; only the decoder's state follows the hypotheses.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.contracts import BOS, select_rows
from regard.decoding.extend import extend
from regard.decoding.greedy import Greedy
from regard.decoding.hypothesis import Hypothesis, Task
from regard.decoding.lattice import Lattice
from regard.decoding.rows import leaving_pays, steps_between_looks


@dataclass(frozen=True, kw_only=True)
class Beam:
    """`num_best` answers a source, of `size` that are looked for; a beam of one is greedy search."""

    size: int = 5
    length_penalty: float = 1.0
    num_best: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is {self.size}, expected 1 hypothesis or more.")
        if not 1 <= self.num_best <= self.size:
            raise ValueError(
                f"num_best is {self.num_best}, but the beam looks for {self.size}. "
                f"Use a num_best from 1 to {self.size}, or a larger size."
            )
        if not 0 <= self.length_penalty < float("inf"):
            raise ValueError(f"length_penalty is {self.length_penalty}, expected 0 (none) or more; 1.0 is usual.")

    def penalty(self, length: int) -> float:
        """What the log-probability of this many tokens is divided by."""
        return ((5 + length) / 6) ** self.length_penalty

    def run(self, task: Task) -> list[list[Hypothesis]]:
        """The best hypotheses for each source."""
        if self.size == 1:
            return [[self.rescored(hypothesis) for hypothesis in row] for row in Greedy().run(task)]
        lattice = Lattice(limits=task.limits, size=self.size, penalty=self.penalty)
        explore(task, self.size, lattice)
        return lattice.best(self.num_best, task.source.lengths.tolist())

    def rescored(self, hypothesis: Hypothesis) -> Hypothesis:
        """The same hypothesis, under the penalty."""
        length = len(hypothesis.ids) + hypothesis.finished
        return replace(hypothesis, score=hypothesis.log_prob / self.penalty(length))


def explore(task: Task, size: int, lattice: Lattice) -> None:
    """Search every source to its end; the lattice keeps what was found."""
    device = task.source.ids.device
    encoded = task.model.encode(task.source)
    state = task.model.start(encoded)
    sources, width = list(range(len(task.limits))), 1
    live = torch.zeros(len(sources), width, dtype=torch.float64, device=device)
    tokens = torch.full((len(sources),), BOS, device=device)
    every, last = steps_between_looks(device), max(task.limits)
    for step in range(1, last + 1):
        done = task.model.step(tokens, state, encoded)
        found = extend(done.logits, live, size)
        looked = done.alignment if task.return_alignment else None
        if looked is not None:
            looked = looked.unflatten(0, (len(sources), width)).expand(-1, size, -1)
        lattice.add(sources, found, looked)
        kept = list(range(len(sources)))
        if step % every == 0 or step == last:
            is_open = lattice.close()
            still = [place for place in kept if is_open[sources[place]]]
            if not still:
                return
            kept = still if leaving_pays(len(kept) - len(still), len(kept)) else kept
        live, tokens, state, rows = found.live, found.tokens, done.state, followed(found.parents, width)
        if len(kept) < len(sources) or width < size:
            chosen = torch.tensor(kept, device=device)
            encoded = select_rows(encoded, spread(chosen, width, size))
            live, tokens, rows = select_rows((live, tokens, rows), chosen)
            sources, width = [sources[place] for place in kept], size
            state = select_rows(state, rows.flatten())
        elif not in_order(rows.flatten()):
            state = select_rows(state, rows.flatten())
        tokens = tokens.flatten()


def followed(parents: Int[Tensor, "n size"], width: int) -> Int[Tensor, "n size"]:
    """The row of each hypothesis's parent, where a source has `width` rows."""
    first = torch.arange(0, len(parents) * width, width, device=parents.device)
    return parents + first[:, None]


def spread(chosen: Int[Tensor, " n"], width: int, size: int) -> Int[Tensor, " rows"]:
    """The rows of the chosen sources: after the first step one becomes `size`, later there are `size` already."""
    if width < size:
        return chosen.repeat_interleave(size)
    return (chosen[:, None] * size + torch.arange(size, device=chosen.device)).flatten()


def in_order(rows: Int[Tensor, " rows"]) -> bool:
    """Whether every hypothesis stays in its row; not asked on a GPU, where the answer costs more than the copy."""
    return rows.device.type == "cpu" and bool(torch.equal(rows, torch.arange(len(rows))))
