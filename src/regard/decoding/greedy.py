"""Greedy search, and the decode loop that it shares with sampling.

One token after another, one hypothesis a row: the loop that greedy search and sampling share.

The model's step does the work; the loop adds one choice and one softmax a step. Log-probabilities are added up on the
host in double precision. Rows that have said <eos> leave the batch once enough of them have.

Greedy search: the most probable token, at every step.

y_t = argmax_y p(y | y_<t, x)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.contracts import BOS, EOS, Hypothesis, Task, select_batch
from regard.decoding.rows import Steps, check_number, leaving_pays, own, steps_between_looks
from regard.decoding.top import best

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""Logits [n, vocab], the rows' numbers [n] and the step -> the next token of each row [n]."""


class Written:
    """What each row has said so far."""

    def __init__(self, limits: list[int]) -> None:
        self.limits = limits
        self.ids: list[list[int]] = [[] for _ in limits]
        self.log_probs = [0.0] * len(limits)
        self.open = [True] * len(limits)

    def add(self, live: list[int], tokens: list[int], log_probs: list[float]) -> None:
        """One step of the live rows; those that are closed already stay as they are."""
        for row, token, log_prob in zip(live, tokens, log_probs, strict=True):
            if self.open[row]:
                ids = self.ids[row]
                ids.append(token)
                self.log_probs[row] += log_prob
                if token == EOS or len(ids) == self.limits[row]:
                    self.open[row] = False


def walk(task: Task, choose: Choose) -> list[list[Hypothesis]]:
    """Write every row to its <eos> or its limit."""
    device = task.source.ids.device
    written, looks, numbers = Written(task.limits), Steps(), task.numbers
    encoded = task.model.encode(task.source)
    state = task.model.start(encoded)
    live = list(range(len(task.limits)))
    tokens = torch.full((len(live),), BOS, device=device)
    pending: list[tuple[Tensor, Tensor]] = []
    every, last = steps_between_looks(device), max(task.limits)
    for step in range(1, last + 1):
        done = task.model.step(tokens, state, encoded)
        state = done.state
        tokens = choose(done.logits, numbers, step)
        pending.append((tokens, log_prob_of(done.logits, tokens)))
        if task.return_weights and done.alignment is not None:
            looks.add(live, done.alignment)
        if step % every and step < last:
            continue
        for said, log_probs in pending:
            written.add(live, said.tolist(), log_probs.tolist())
        pending.clear()
        kept = [place for place, row in enumerate(live) if written.open[row]]
        if not kept:
            break
        if leaving_pays(len(live) - len(kept), len(live)):
            live = [live[place] for place in kept]
            tokens, numbers, state, encoded = select_batch(
                (tokens, numbers, state, encoded), torch.tensor(kept, device=device)
            )
    return hypotheses(task, written, looks)


def log_prob_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability of each row's token; the softmax kernel is the fastest way to the normaliser."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return logits.log_softmax(dim=1, dtype=dtype).gather(1, tokens[:, None])[:, 0]


def hypotheses(task: Task, written: Written, looks: Steps) -> list[list[Hypothesis]]:
    """What was written, without its <eos>."""
    alignments, lengths = looks.of_each(), task.source.lengths.tolist()
    results = []
    for row, (ids, log_prob) in enumerate(zip(written.ids, written.log_probs, strict=True)):
        check_number(log_prob, row)
        finished = ids[-1] == EOS
        seen = own(alignments[row][: len(ids), : lengths[row]]) if row in alignments else None
        said = tuple(ids[:-1] if finished else ids)
        results.append([Hypothesis(ids=said, log_prob=log_prob, score=log_prob, finished=finished, alignment=seen)])
    return results


@dataclass(frozen=True)
class Greedy:
    """The fastest search; one answer a source, ranked by its log-probability."""

    def run(self, task: Task) -> list[list[Hypothesis]]:
        """One hypothesis for each source."""
        return walk(task, most_probable)


def most_probable(logits: Tensor, numbers: Tensor, step: int) -> Tensor:
    """The best token; <pad> and <bos>, the first two columns, are never said."""
    return best(logits[:, EOS:]) + EOS
