"""Beam search: the most probable continuations, extended step by step, with back-pointers.

One step of beam search, for all sources at once: which continuations live on, and which end here.

What a beam search has found: steps with back-pointers on the device, ends on the host.

Tokens and parents stay where they are until the search is over; then the few hypotheses that are asked for are read
back from their last token to their first.

Beam search: the `size` best beginnings of an answer go on at every step.

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

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import BOS, EOS, UNK, Hypothesis, Task, select_batch
from regard.decoding.greedy import Greedy
from regard.decoding.rows import Steps, check_number, leaving_pays, own, steps_between_looks
from regard.decoding.top import top

NEVER = float("-inf")


@dataclass(frozen=True, kw_only=True)
class Extended:
    """The live hypotheses of n sources after a step, best first, and what <eos> made of those before it.

    `parents` are places among the hypotheses before the step. `ends` is -inf where <eos> was not good enough.
    """

    tokens: Int[Tensor, "n size"]
    parents: Int[Tensor, "n size"]
    live: Float[Tensor, "n size"]
    ends: Float[Tensor, "n width"]


def extend(logits: Float[Tensor, "rows vocab"], live: Float[Tensor, "n width"], size: int) -> Extended:
    """The `size` best continuations of each source's live hypotheses, which have these log-probabilities.

    <eos> ends a hypothesis where it is among the `size` best of all. <pad> and <bos> are never said.
    """
    sources, width = live.shape
    if logits.shape[1] <= UNK:
        raise ValueError(f"the model knows {logits.shape[1]} tokens, expected the four marks at least.")
    # faster than logsumexp, which makes several passes
    log_probs = logits.log_softmax(dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    values, columns = top(log_probs[:, UNK:], min(size, log_probs.shape[1] - UNK))
    each = values.shape[1]
    totals = (values.view(sources, width, each) + live[:, :, None]).flatten(1)
    ends = log_probs[:, EOS].view(sources, width) + live
    # a small vocabulary has fewer continuations than the beam has places
    if width * each < size:
        totals = F.pad(totals, (0, size - width * each), value=NEVER)
    totals, picked = totals.topk(size, dim=1)
    picked = picked.clamp_(max=width * each - 1)
    worst = torch.cat([totals, ends], dim=1).topk(size, dim=1).values[:, -1:]
    return Extended(
        tokens=columns.view(sources, width * each).gather(1, picked) + UNK,
        parents=picked.div(each, rounding_mode="floor"),
        live=totals,
        ends=ends.masked_fill(ends < worst, NEVER),
    )


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
        looked = done.alignment if task.return_weights else None
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
            encoded = select_batch(encoded, spread(chosen, width, size))
            live, tokens, rows = select_batch((live, tokens, rows), chosen)
            sources, width = [sources[place] for place in kept], size
            state = select_batch(state, rows.flatten())
        elif not in_order(rows.flatten()):
            state = select_batch(state, rows.flatten())
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
