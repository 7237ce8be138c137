"""Greedy search, and the decode loop that it shares with sampling: one token after another, one hypothesis a source.

    y_t = argmax_y p(y | y_<t, x)

The loop adds one choice and one softmax to the model's step. Log-probabilities are summed on the host in double
precision. Examples whose hypothesis is closed leave the batch once enough of them are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.contracts import BOS, EOS, Hypothesis, SearchInput, check_cancelled, select_batch
from regard.decoding.ops import (
    StepValues,
    best_column,
    check_not_nan,
    compaction_pays,
    outside_inference,
    transfer_interval,
)

TokenChoice = Callable[[Tensor, Tensor, int], Tensor]
"""Logits [n, vocab], the numbers of the sources [n] and the step -> the next token of each [n]."""


@dataclass(frozen=True)
class Greedy:
    """The most probable token at every step: the fastest search, with one hypothesis for each source."""

    def run(self, inputs: SearchInput) -> list[list[Hypothesis]]:
        """One hypothesis for each source."""
        return decode_loop(inputs, most_probable)


def most_probable(logits: Tensor, numbers: Tensor, step: int) -> Tensor:
    """The most probable token; never <pad> or <bos>, the first two columns."""
    return best_column(logits[:, EOS:]) + EOS


class TokenLists:
    """The tokens of each source, with their log-probability."""

    def __init__(self, limits: list[int]) -> None:
        self.limits = limits
        self.ids: list[list[int]] = [[] for _ in limits]
        self.log_probs = [0.0] * len(limits)
        self.open = [True] * len(limits)

    def add(self, live: list[int], tokens: list[int], log_probs: list[float]) -> None:
        """One step of the live sources; closed ones do not change."""
        for source, token, log_prob in zip(live, tokens, log_probs, strict=True):
            if self.open[source]:
                ids = self.ids[source]
                ids.append(token)
                self.log_probs[source] += log_prob
                if token == EOS or len(ids) == self.limits[source]:
                    self.open[source] = False


def decode_loop(inputs: SearchInput, choose: TokenChoice) -> list[list[Hypothesis]]:
    """Extend every hypothesis until <eos> or its limit."""
    device = inputs.source.device
    outputs, all_weights, numbers = TokenLists(inputs.limits), StepValues(), inputs.numbers
    encoded = inputs.model.encode(inputs.source)
    state = inputs.model.start(encoded)
    live = list(range(len(inputs.limits)))
    tokens = torch.full((len(live),), BOS, device=device)
    # tokens stay on the device until they are transferred, several steps at a time
    pending: list[tuple[Tensor, Tensor]] = []
    interval, last = transfer_interval(device), max(inputs.limits)
    for number in range(1, last + 1):
        check_cancelled()
        step = inputs.model.step(tokens, state, encoded)
        state = step.state
        tokens = choose(step.logits, numbers, number)
        pending.append((tokens, log_prob_of(step.logits, tokens)))
        if inputs.return_weights and step.weights is not None:
            all_weights.add(live, step.weights)
        # the host waits for the device only at every `interval`-th step
        if number % interval and number < last:
            continue
        # no example left the batch since the last transfer, so `live` fits all pending steps
        for step_tokens, log_probs in pending:
            outputs.add(live, step_tokens.tolist(), log_probs.tolist())
        pending.clear()
        open_positions = [position for position, source in enumerate(live) if outputs.open[source]]
        if not open_positions:
            break
        if compaction_pays(len(live) - len(open_positions), len(live)):
            live = [live[position] for position in open_positions]
            tokens, numbers, state, encoded = select_batch(
                (tokens, numbers, state, encoded), torch.tensor(open_positions, device=device)
            )
    return hypotheses_of(inputs, outputs, all_weights)


def log_prob_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability of each example's token, in at least single precision."""
    # faster than logsumexp, which makes several passes over the logits
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return logits.log_softmax(dim=1, dtype=dtype).gather(1, tokens[:, None])[:, 0]


def hypotheses_of(inputs: SearchInput, outputs: TokenLists, all_weights: StepValues) -> list[list[Hypothesis]]:
    """One hypothesis for each source, without its <eos>."""
    by_source, lengths = all_weights.by_source(), inputs.source.lengths.tolist()
    hypotheses = []
    for source, (ids, log_prob) in enumerate(zip(outputs.ids, outputs.log_probs, strict=True)):
        check_not_nan(log_prob, source)
        finished = ids[-1] == EOS
        weights = None
        if source in by_source:
            # steps after <eos>, which were computed before the transfer, and padding of the source are cut off
            weights = outside_inference(by_source[source][: len(ids), : lengths[source]])
        hypothesis = Hypothesis(
            ids=tuple(ids[:-1] if finished else ids),
            log_prob=log_prob,
            score=log_prob,
            finished=finished,
            weights=weights,
        )
        hypotheses.append([hypothesis])
    return hypotheses
