"""What a beam search has found: steps with back-pointers on the device, ends on the host.

Tokens and parents stay where they are until the search is over; then the few hypotheses that are asked for are read
back from their last token to their first.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.extend import NEVER, Extended
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rows import Steps, check_number, own


@dataclass(frozen=True, kw_only=True)
class End:
    """Where a hypothesis ends: after `num_tokens` steps, <eos> among them where finished, from `place` of the beam.

    The place is that of its last token other than <eos>.
    """

    score: float
    log_prob: float
    num_tokens: int
    place: int
    finished: bool


class Lattice:
    """All steps of a batch of sources, and the ends found so far."""

    def __init__(self, *, limits: list[int], size: int, penalty: Callable[[int], float]) -> None:
        self.limits, self.size, self.penalty = limits, size, penalty
        self.num_steps = [0] * len(limits)
        self.open = [True] * len(limits)
        self.ends: list[list[End]] = [[] for _ in limits]
        self.tokens, self.parents, self.looks = Steps(), Steps(), Steps()
        self.pending: list[tuple[list[int], Extended]] = []

    def add(self, sources: list[int], found: Extended, alignment: Tensor | None) -> None:
        """One step of these sources; the alignment is that of the hypotheses before it, [n, size, source]."""
        self.pending.append((sources, found))
        self.tokens.add(sources, found.tokens)
        self.parents.add(sources, found.parents)
        if alignment is not None:
            self.looks.add(sources, alignment)

    def close(self) -> list[bool]:
        """Take in the steps since the last call; which sources are open still."""
        for sources, found in self.pending:
            for source, live, ends in zip(sources, found.live.tolist(), found.ends.tolist(), strict=True):
                if self.open[source]:
                    self.open[source] = self.take(source, live, ends)
        self.pending.clear()
        return self.open

    def take(self, source: int, live: list[float], ends: list[float]) -> bool:
        """One step of one source; whether it goes on."""
        check_number(live[0], source)
        self.num_steps[source] += 1
        self.note(source, ends, finished=True)
        if len(self.ends[source]) >= self.size:
            return False
        if self.num_steps[source] < self.limits[source] and live[0] > NEVER:
            return True
        self.note(source, live, finished=False)
        return False

    def note(self, source: int, log_probs: list[float], *, finished: bool) -> None:
        """Hypotheses that end at the present step; -inf is none."""
        length = self.num_steps[source]
        for place, log_prob in enumerate(log_probs):
            if log_prob > NEVER:
                score = log_prob / self.penalty(length)
                end = End(score=score, log_prob=log_prob, num_tokens=length, place=place, finished=finished)
                self.ends[source].append(end)

    def best(self, count: int, lengths: list[int]) -> list[list[Hypothesis]]:
        """The best hypotheses of each source, finished ones first."""
        tokens, parents, looks = self.tokens.of_each(), self.parents.of_each(), self.looks.of_each()
        results = []
        for source, ends in enumerate(self.ends):
            if not ends:
                raise ValueError(
                    f"the model leaves no token possible for source {source}: all it may say has logit -inf."
                )
            ranked = sorted(ends, key=lambda end: (not end.finished, -end.score))[:count]
            said, came = tokens[source].tolist(), parents[source].tolist()
            looked = looks[source][..., : lengths[source]] if source in looks else None
            results.append([read(end, said, came, looked) for end in ranked])
        return results


def read(end: End, tokens: list[list[int]], parents: list[list[int]], looked: Tensor | None) -> Hypothesis:
    """Follow a hypothesis from its end to its beginning."""
    place, num_ids = end.place, end.num_tokens - end.finished
    ids, places = [], [place] if end.finished else []
    for step in range(num_ids - 1, -1, -1):
        ids.append(tokens[step][place])
        place = parents[step][place]
        places.append(place)
    alignment = None
    if looked is not None:
        alignment = own(looked[torch.arange(end.num_tokens), torch.tensor(places[::-1])])
    return Hypothesis(
        ids=tuple(ids[::-1]), log_prob=end.log_prob, score=end.score, finished=end.finished, alignment=alignment
    )
