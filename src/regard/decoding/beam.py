"""Beam search: at every step, the `size` most probable continuations of each source's hypotheses stay in the beam.

A hypothesis that continues with <eos> is finished if it is among the `size` best continuations of that step; the beam
keeps `size` live hypotheses beside the finished ones. A source is done when `size` hypotheses are finished, or at its
limit, where the live ones are closed as unfinished and ranked after all finished ones. The rank is by

    score = log p(y | x) / lp(y),    lp(y) = ((5 + |y|) / 6) ^ alpha

Wu et al. 2016, section 7. https://arxiv.org/abs/1609.08144
|y| counts <eos>. Every token lowers log p: without a penalty (alpha 0) short outputs win. With alpha 1 the score is
close to the mean per token, and no tuning is needed.

The hypotheses of a source are adjacent in the batch (source * size + position in the beam), so the encoded source is
repeated once and never reordered; only the decoder's state follows the hypotheses. Tokens and back-pointers stay on the
device during the search, and the best hypotheses are read from their last token to their first at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import BOS, EOS, UNK, Hypothesis, SearchInput, check_cancelled, select_batch
from regard.decoding.greedy import Greedy
from regard.decoding.ops import (
    StepValues,
    best_columns,
    check_not_nan,
    compaction_pays,
    outside_inference,
    transfer_interval,
)

IMPOSSIBLE = float("-inf")


@dataclass(frozen=True, kw_only=True)
class Beam:
    """`num_best` hypotheses for each source, from a beam of `size`; a beam of one is greedy search."""

    size: int = 5
    length_penalty: float = 1.0
    num_best: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is {self.size}, expected 1 hypothesis or more.")
        if not 1 <= self.num_best <= self.size:
            raise ValueError(
                f"num_best is {self.num_best}, but the beam has {self.size} hypotheses. "
                f"Use a num_best from 1 to {self.size}, or a larger size."
            )
        if not 0 <= self.length_penalty < float("inf"):
            raise ValueError(f"length_penalty is {self.length_penalty}, expected 0 (none) or more; 1.0 is usual.")

    def penalty(self, length: int) -> float:
        """lp(y) of an output of this many tokens."""
        return ((5 + length) / 6) ** self.length_penalty

    def run(self, inputs: SearchInput) -> list[list[Hypothesis]]:
        """The best hypotheses for each source."""
        # a beam of one is greedy search, whose loop needs no back-pointers
        if self.size == 1:
            return [[self.penalized(hypothesis) for hypothesis in row] for row in Greedy().run(inputs)]
        pointers = BackPointers(limits=inputs.limits, size=self.size, penalty=self.penalty)
        beam_loop(inputs, self.size, pointers)
        return pointers.best(self.num_best, inputs.source.lengths.tolist())

    def penalized(self, hypothesis: Hypothesis) -> Hypothesis:
        """The same hypothesis with the score of a beam."""
        length = len(hypothesis.ids) + hypothesis.finished
        return replace(hypothesis, score=hypothesis.log_prob / self.penalty(length))


@dataclass(frozen=True, kw_only=True)
class BeamStep:
    """The live hypotheses of n sources after a step, best first, and the log-probabilities of those that end in it.

    `parents` are positions in the beam before the step. `ends` is -inf where <eos> is not among the `size` best.
    """

    tokens: Int[Tensor, "n size"]
    parents: Int[Tensor, "n size"]
    live: Float[Tensor, "n size"]
    ends: Float[Tensor, "n width"]


def beam_step(logits: Float[Tensor, "rows vocab"], live: Float[Tensor, "n width"], size: int) -> BeamStep:
    """The `size` best continuations of each source's live hypotheses, whose log-probabilities are `live`.

    <eos> ends a hypothesis if it is among the `size` best of all continuations. <pad> and <bos> are never chosen.
    """
    num_sources, width = live.shape
    if logits.shape[1] <= UNK:
        raise ValueError(
            f"the model has a vocabulary of {logits.shape[1]} tokens, expected at least the 4 special tokens."
        )
    # faster than logsumexp, which makes several passes over the logits
    log_probs = logits.log_softmax(dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    # the best `size` of all continuations are among the best `size` of every hypothesis
    values, columns = best_columns(log_probs[:, UNK:], min(size, log_probs.shape[1] - UNK))
    num_each = values.shape[1]
    # (n, width, num_each) becomes (n, width * num_each): the continuations of a source compete with each other
    totals = (values.view(num_sources, width, num_each) + live[:, :, None]).flatten(1)
    ends = log_probs[:, EOS].view(num_sources, width) + live
    # a small vocabulary has fewer continuations than the beam has positions
    if width * num_each < size:
        totals = F.pad(totals, (0, size - width * num_each), value=IMPOSSIBLE)
    totals, chosen = totals.topk(size, dim=1)
    # an index of the padding above is no candidate; its total of -inf excludes the hypothesis
    chosen = chosen.clamp_(max=width * num_each - 1)
    # the lowest of the `size` best continuations, <eos> included
    threshold = torch.cat([totals, ends], dim=1).topk(size, dim=1).values[:, -1:]
    return BeamStep(
        # columns count from <unk>, the first token that continues a hypothesis
        tokens=columns.view(num_sources, width * num_each).gather(1, chosen) + UNK,
        # candidates of one hypothesis are adjacent, so the quotient is its position in the beam
        parents=chosen.div(num_each, rounding_mode="floor"),
        live=totals,
        ends=ends.masked_fill(ends < threshold, IMPOSSIBLE),
    )


@dataclass(frozen=True, kw_only=True)
class HypothesisEnd:
    """Where a hypothesis ends: after `num_tokens` steps, <eos> included if finished.

    `position` is that of its last token other than <eos> in the beam.
    """

    score: float
    log_prob: float
    num_tokens: int
    position: int
    finished: bool


class BackPointers:
    """Tokens and parents of every step on the device, and the ends of hypotheses on the host."""

    def __init__(self, *, limits: list[int], size: int, penalty: Callable[[int], float]) -> None:
        self.limits, self.size, self.penalty = limits, size, penalty
        self.num_steps = [0] * len(limits)
        self.open = [True] * len(limits)
        self.ends: list[list[HypothesisEnd]] = [[] for _ in limits]
        self.tokens, self.parents, self.all_weights = StepValues(), StepValues(), StepValues()
        self.pending: list[tuple[list[int], BeamStep]] = []

    def add(self, sources: list[int], step: BeamStep, weights: Tensor | None) -> None:
        """One step of these sources; the weights is that of the hypotheses before it, [n, size, source]."""
        self.pending.append((sources, step))
        self.tokens.add(sources, step.tokens)
        self.parents.add(sources, step.parents)
        if weights is not None:
            self.all_weights.add(sources, weights)

    def update(self) -> list[bool]:
        """Transfer the steps since the last call to the host; for each source, whether it is still open."""
        for sources, step in self.pending:
            for source, live, ends in zip(sources, step.live.tolist(), step.ends.tolist(), strict=True):
                # a source that closed within the interval ran on until the transfer: its later steps do not count
                if self.open[source]:
                    self.open[source] = self.add_ends(source, live, ends)
        self.pending.clear()
        return self.open

    def add_ends(self, source: int, live: list[float], ends: list[float]) -> bool:
        """The ends of one step of one source; whether the source is still open."""
        check_not_nan(live[0], source)
        self.num_steps[source] += 1
        self.close(source, ends, finished=True)
        # several may end in one step, so there can be more than `size`; `best` ranks them all
        if len(self.ends[source]) >= self.size:
            return False
        # without a live hypothesis of finite log-probability no later step can add an end
        if self.num_steps[source] < self.limits[source] and live[0] > IMPOSSIBLE:
            return True
        self.close(source, live, finished=False)
        return False

    def close(self, source: int, log_probs: list[float], *, finished: bool) -> None:
        """End the hypotheses whose log-probability is not -inf at the present step."""
        length = self.num_steps[source]
        for position, log_prob in enumerate(log_probs):
            if log_prob > IMPOSSIBLE:
                end = HypothesisEnd(
                    score=log_prob / self.penalty(length),
                    log_prob=log_prob,
                    num_tokens=length,
                    position=position,
                    finished=finished,
                )
                self.ends[source].append(end)

    def best(self, count: int, lengths: list[int]) -> list[list[Hypothesis]]:
        """The best hypotheses of each source, finished ones first."""
        tokens, parents, all_weights = (steps.by_source() for steps in (self.tokens, self.parents, self.all_weights))
        hypotheses = []
        for source, ends in enumerate(self.ends):
            if not ends:
                raise ValueError(f"the model gives every permitted token of source {source} the logit -inf.")
            # stable: of equal scores the earlier end comes first
            ranked = sorted(ends, key=lambda end: (not end.finished, -end.score))[:count]
            token_lists, parent_lists = tokens[source].tolist(), parents[source].tolist()
            weights = all_weights[source][..., : lengths[source]] if source in all_weights else None
            hypotheses.append([follow(end, token_lists, parent_lists, weights) for end in ranked])
        return hypotheses


def follow(
    end: HypothesisEnd, tokens: list[list[int]], parents: list[list[int]], all_weights: Tensor | None
) -> Hypothesis:
    """Follow the back-pointers of a hypothesis from its end to its beginning."""
    position, num_ids = end.position, end.num_tokens - end.finished
    # <eos> has no entry among the tokens; its weights are those of the hypothesis it ends
    ids, positions = [], [position] if end.finished else []
    for step in range(num_ids - 1, -1, -1):
        ids.append(tokens[step][position])
        # the weights of a step belong to the hypothesis before it: the parent
        position = parents[step][position]
        positions.append(position)
    weights = None
    if all_weights is not None:
        weights = outside_inference(all_weights[torch.arange(end.num_tokens), torch.tensor(positions[::-1])])
    return Hypothesis(
        ids=tuple(ids[::-1]), log_prob=end.log_prob, score=end.score, finished=end.finished, weights=weights
    )


def beam_loop(inputs: SearchInput, size: int, pointers: BackPointers) -> None:
    """Take beam steps until every source is closed."""
    device = inputs.source.device
    encoded = inputs.model.encode(inputs.source)
    state = inputs.model.start(encoded)
    # before the first step a source has one hypothesis, <bos>, afterwards `size`
    sources, width = list(range(len(inputs.limits))), 1
    # double precision: log-probabilities of long outputs are sums of many terms
    live = torch.zeros(len(sources), width, dtype=torch.float64, device=device)
    tokens = torch.full((len(sources),), BOS, device=device)
    interval, last = transfer_interval(device), max(inputs.limits)
    for number in range(1, last + 1):
        check_cancelled()
        step = inputs.model.step(tokens, state, encoded)
        extended = beam_step(step.logits, live, size)
        weights = step.weights if inputs.return_weights else None
        if weights is not None:
            # at the first step one hypothesis per source is expanded to `size`, so that all steps have equal shapes
            weights = weights.unflatten(0, (len(sources), width)).expand(-1, size, -1)
        pointers.add(sources, extended, weights)
        remaining = list(range(len(sources)))
        if number % interval == 0 or number == last:
            # closed sources stay in the batch between two transfers; their steps are ignored by `update`
            is_open = pointers.update()
            open_positions = [position for position in remaining if is_open[sources[position]]]
            if not open_positions:
                return
            if compaction_pays(len(remaining) - len(open_positions), len(remaining)):
                remaining = open_positions
        live, tokens, state, rows = extended.live, extended.tokens, step.state, parent_rows(extended.parents, width)
        if len(remaining) < len(sources) or width < size:
            chosen = torch.tensor(remaining, device=device)
            # the encoded source is repeated or compacted here, and never follows the hypotheses
            encoded = select_batch(encoded, source_rows(chosen, width, size))
            live, tokens, rows = select_batch((live, tokens, rows), chosen)
            sources, width = [sources[position] for position in remaining], size
            state = select_batch(state, rows.flatten())
        elif not is_identity(rows.flatten()):
            state = select_batch(state, rows.flatten())
        tokens = tokens.flatten()


def parent_rows(parents: Int[Tensor, "n size"], width: int) -> Int[Tensor, "n size"]:
    """The batch element of each hypothesis's parent, where a source has `width` batch elements."""
    first = torch.arange(0, len(parents) * width, width, device=parents.device)
    return parents + first[:, None]


def source_rows(chosen: Int[Tensor, " n"], width: int, size: int) -> Int[Tensor, " rows"]:
    """The batch elements of the chosen sources: one is repeated `size` times after the first step, then all `size`."""
    if width < size:
        return chosen.repeat_interleave(size)
    return (chosen[:, None] * size + torch.arange(size, device=chosen.device)).flatten()


def is_identity(rows: Int[Tensor, " rows"]) -> bool:
    """Whether no batch element moves; False on a GPU, where the comparison costs more than the copy it may save."""
    return rows.device.type == "cpu" and bool(torch.equal(rows, torch.arange(len(rows))))
