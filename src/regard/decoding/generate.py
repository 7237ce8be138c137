"""Generation: a language model continues texts, token by token, in batches.

    read the prompts -> choose the next token of each text -> read these -> ...

Prompts of different lengths are not padded: all are read up to the length of the shortest, and then step by step; a
text whose prompt is longer continues with the next token of its prompt. So every text is computed as if it were alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import (
    PAD,
    LanguageModel,
    StepFunction,
    check_cancelled,
    device_of,
    evaluating,
    select_batch,
    unwrap,
)
from regard.decoding.greedy import log_prob_of
from regard.decoding.ops import check_not_nan, compaction_pays, transfer_interval
from regard.decoding.sampling import Generation, TokenSampler


class ModelSteps:
    """The model's `step` with its state."""

    can_select_batch = True

    def __init__(self, model: LanguageModel, state: Any) -> None:
        self.model, self.state = model, state

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """One step."""
        step = self.model.step(tokens, self.state)
        self.state = step.state
        return step.logits

    def select_batch(self, rows: Int[Tensor, " selected"]) -> None:
        """The state of these batch elements."""
        self.state = select_batch(self.state, rows)

    def close(self) -> None:
        """There are no buffers."""


def step_function_of(model: LanguageModel, state: Any, *, limit: int) -> StepFunction:
    """The model's own step function from this state, if it offers one; otherwise its `step`."""
    method = getattr(model, "step_function", None)
    step_function: StepFunction | None = None if method is None else method(state, limit)
    return ModelSteps(model, state) if step_function is None else step_function


OPTIONS = Generation()
Stop = Callable[[int, Sequence[int]], bool]
"""A text's position in the list and its new tokens -> whether it ends there."""


@dataclass(frozen=True, kw_only=True)
class TokenOutput:
    """One new token of the text at position `row`.

    `log_prob` is the model's own, before any option; None if not requested. `ended` is None while the text continues,
    then "tokens" (it has as many as it may) or "stop".
    """

    row: int
    token: int
    log_prob: float | None
    ended: str | None


@dataclass(frozen=True, kw_only=True)
class Generated:
    """The new tokens of one text, the stop token that ended it included, and why it ended."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...] | None
    ended: str


def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    options: Generation = OPTIONS,
    *,
    numbers: Sequence[int] | None = None,
    stop: Stop | None = None,
    return_log_probs: bool = True,
) -> list[Generated]:
    """A continuation of each prompt. It does not depend on the rest of the batch; similar lengths are the fastest.

    `numbers` are the positions of the prompts in the caller's list (0, 1, .. if left out): random draws depend on them.
    """
    ids: list[list[int]] = [[] for _ in prompts]
    log_probs: list[list[float]] = [[] for _ in prompts]
    reasons, closed = ["tokens" for _ in prompts], set[int]()
    steps = stream(model, prompts, options, numbers=numbers, closed=closed, return_log_probs=return_log_probs)
    # once for all steps: `stream` sets the mode again at each of them
    with evaluating(model):
        for step in steps:
            for output in step:
                ids[output.row].append(output.token)
                if output.log_prob is not None:
                    log_probs[output.row].append(output.log_prob)
                if output.ended is not None:
                    reasons[output.row] = output.ended
                elif stop is not None and stop(output.row, ids[output.row]):
                    reasons[output.row] = "stop"
                    # the generator reads this set before its next step
                    closed.add(output.row)
    return [
        Generated(ids=tuple(tokens), log_probs=tuple(values) if return_log_probs else None, ended=reason)
        for tokens, values, reason in zip(ids, log_probs, reasons, strict=True)
    ]


def stream(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    options: Generation = OPTIONS,
    *,
    numbers: Sequence[int] | None = None,
    closed: set[int] | None = None,
    return_log_probs: bool = True,
) -> Iterator[list[TokenOutput]]:
    """As `generate`, step by step: the new token of every text that has one.

    The caller ends a text by adding its position to `closed`, for reasons that only its decoded text shows; positions
    of texts that ended are added too. Positions count from 0, whatever the numbers.
    """
    check_prompts(prompts, getattr(getattr(unwrap(model), "config", None), "vocab_size", None))
    if numbers is not None and len(numbers) != len(prompts):
        raise ValueError(f"there are {len(numbers)} numbers for {len(prompts)} prompts. Give one a prompt, or none.")
    # a function of its own: the body of a generator function runs at the first `next`, and errors belong to the call
    return token_outputs(
        model,
        prompts,
        options,
        numbers=range(len(prompts)) if numbers is None else numbers,
        closed=set() if closed is None else closed,
        return_log_probs=return_log_probs,
    )


def check_prompts(prompts: Sequence[Sequence[int]], vocab_size: int | None = None) -> None:
    """Refuse a prompt without a token, or with one that is not in the vocabulary."""
    for row, prompt in enumerate(prompts):
        if not len(prompt):
            raise ValueError(
                f"prompt {row} is empty, but a model predicts the token after a token. Pass <eos> to begin a new text."
            )
        if min(prompt) < 0 or (vocab_size is not None and max(prompt) >= vocab_size):
            expected = "0 or more" if vocab_size is None else f"0 to {vocab_size - 1}"
            raise ValueError(
                f"prompt {row} has tokens from {min(prompt)} to {max(prompt)}, expected {expected}. Encode it with the "
                f"tokenizer that the model was trained with."
            )


def token_outputs(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    options: Generation,
    *,
    numbers: Sequence[int],
    closed: set[int],
    return_log_probs: bool,
) -> Iterator[list[TokenOutput]]:
    """The steps of a stream. Inference mode ends before each `yield`: the caller's code must not run in it."""
    if not prompts:
        return
    with evaluating(model):
        batch = GenerationBatch(
            model, prompts, options, numbers=numbers, closed=closed, return_log_probs=return_log_probs
        )
    try:
        while batch.live:
            with evaluating(model):
                steps = batch.advance()
            for step in steps:
                # several steps may come at once: the caller can have closed a text since
                outputs = [output for output in step if output.row not in closed]
                closed.update(output.row for output in outputs if output.ended is not None)
                if outputs:
                    yield outputs
            with evaluating(model):
                batch.compact()
    # a caller may also abandon the generator: its close() raises GeneratorExit at the yield
    finally:
        batch.step.close()


class GenerationBatch:
    """Texts in a batch. `position` is that of the next token of all; `live` are the texts still in the batch."""

    def __init__(
        self,
        model: LanguageModel,
        prompts: Sequence[Sequence[int]],
        options: Generation,
        *,
        numbers: Sequence[int],
        closed: set[int],
        return_log_probs: bool,
    ) -> None:
        self.options, self.closed, self.return_log_probs = options, closed, return_log_probs
        self.prompt_lengths = [len(prompt) for prompt in prompts]
        longest = max(self.prompt_lengths)
        self.live, self.position = list(range(len(prompts))), min(self.prompt_lengths)
        self.device = device_of(model)
        # padding only completes the rectangle: each text is read up to its own length
        padded = [[*prompt, *[PAD] * (longest - len(prompt))] for prompt in prompts]
        self.prompts = torch.tensor(padded, device=self.device)
        self.lengths = torch.tensor(self.prompt_lengths, device=self.device)
        draw_numbers = torch.tensor(list(numbers), device=self.device)
        # all prompts are at least this long, so no padding is read
        output = model.features(self.prompts[:, : self.position], model.start(len(prompts)))
        # only the last position predicts a new token
        self.logits: Float[Tensor, "n vocab"] = model.readout(output.features[:, -1])
        self.sampler = TokenSampler(options, numbers=draw_numbers, texts=self.prompts, vocab_size=self.logits.shape[1])
        self.end = longest + options.max_tokens
        self.step: StepFunction = step_function_of(model, output.state, limit=self.end - self.position - 1)
        self.tokens: Int[Tensor, " n"] | None = None

    def advance(self) -> list[list[TokenOutput]]:
        """As many steps as are taken between two transfers to the host, and their outputs."""
        pending: list[tuple[int, Tensor, Tensor]] = []
        # every position is stepped on the device without a transfer; the host receives them together
        while self.position < self.end and len(pending) < transfer_interval(self.device):
            check_cancelled()
            if self.tokens is not None:
                self.logits = self.step(self.tokens)
            # drawn for texts still in their prompts too, and replaced below: one kernel serves the whole batch
            self.tokens = self.sampler(self.logits, self.position + 1 - self.lengths)
            # texts whose prompt is longer continue with its next token
            if self.position < self.prompts.shape[1]:
                prompt_tokens = self.prompts[:, self.position]
                self.tokens = torch.where(self.position < self.lengths, prompt_tokens, self.tokens)
            self.sampler.record(self.tokens)
            values = log_prob_of(self.logits, self.tokens) if self.return_log_probs else nan_or_zero(self.logits)
            pending.append((self.position, self.tokens, values))
            self.position += 1
        return [self.outputs_of(*step) for step in pending]

    def outputs_of(self, position: int, tokens: Int[Tensor, " n"], values: Float[Tensor, " n"]) -> list[TokenOutput]:
        """The new tokens at this position; texts still in their prompts have none."""
        outputs = []
        for row, token, value in zip(self.live, tokens.tolist(), values.tolist(), strict=True):
            num_new = position + 1 - self.prompt_lengths[row]
            # up to one interval of steps is computed after a text has ended
            if num_new < 1 or num_new > self.options.max_tokens or row in self.closed:
                continue
            check_not_nan(value, row, what="prompt")
            ended = "stop" if token in self.options.stop_ids else None
            if ended is None and num_new >= self.options.max_tokens:
                ended = "tokens"
            log_prob = value if self.return_log_probs else None
            outputs.append(TokenOutput(row=row, token=token, log_prob=log_prob, ended=ended))
        return outputs

    def compact(self) -> None:
        """Drop closed texts from the batch, once that pays."""
        open_positions = [position for position, row in enumerate(self.live) if row not in self.closed]
        num_closed = len(self.live) - len(open_positions)
        if not open_positions or self.position >= self.end:
            self.live = []
        elif self.step.can_select_batch and compaction_pays(num_closed, len(self.live)):
            rows = torch.tensor(open_positions, device=self.device)
            self.live = [self.live[position] for position in open_positions]
            assert self.tokens is not None
            self.tokens, self.lengths = self.tokens.index_select(0, rows), self.lengths.index_select(0, rows)
            self.prompts = self.prompts.index_select(0, rows)
            self.sampler.select(rows)
            self.step.select_batch(rows)


def nan_or_zero(logits: Float[Tensor, "n vocab"]) -> Float[Tensor, " n"]:
    """NaN for a text whose softmax is not defined, else 0: as `log_prob_of` shows it, without the softmax."""
    largest = logits.amax(dim=1)
    # inf - inf is NaN
    return largest - largest
