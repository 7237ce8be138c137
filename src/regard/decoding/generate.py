"""Generation: a language model continues texts, token by token, in batches.

The steps of a generation: those that the model offers as a step function, or its own `step`.

Generation: a language model goes on with texts, token by token, several side by side.

    read the prompts -> choose a token of each row -> read those -> ...

Prompts of different lengths are not padded: all are read as far as the shortest goes, and then step by step; a row
whose prompt is not yet over is given the prompt's own next token. So every row sees exactly what it would see alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import PAD, LanguageModel, StepFunction, device_of, evaluating, select_batch, unwrap
from regard.decoding.greedy import log_prob_of
from regard.decoding.rows import check_number, leaving_pays, steps_between_looks
from regard.decoding.sampling import Chooser, Generation


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
    """The model's own step function from this state, if it offers one; otherwise its steps."""
    offer = getattr(model, "step_function", None)
    offered: StepFunction | None = None if offer is None else offer(state, limit)
    return ModelSteps(model, state) if offered is None else offered


OPTIONS = Generation()
Stop = Callable[[int, Sequence[int]], bool]
"""A row and the tokens it has said so far -> whether it is to end there."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """One new token of one row. `log_prob` is the model's own, before any option; None where not asked for.

    `ended` is None while the row goes on; then "tokens", for it has said as many as it may, or "stop".
    """

    row: int
    token: int
    log_prob: float | None
    ended: str | None


@dataclass(frozen=True, kw_only=True)
class Generated:
    """How one text goes on: its new tokens, the stop token that ended it among them, and why it ended."""

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
    """How each prompt goes on. No answer depends on the rest of the batch; prompts of like lengths are the fastest.

    `numbers` are the rows' places in the caller's own list (0, 1, .. where left out): chance draws by them.
    """
    ids: list[list[int]] = [[] for _ in prompts]
    log_probs: list[list[float]] = [[] for _ in prompts]
    ended, closed = ["tokens" for _ in prompts], set[int]()
    steps = stream(model, prompts, options, numbers=numbers, closed=closed, return_log_probs=return_log_probs)
    with evaluating(model):
        for step in steps:
            for said in step:
                ids[said.row].append(said.token)
                if said.log_prob is not None:
                    log_probs[said.row].append(said.log_prob)
                if said.ended is not None:
                    ended[said.row] = said.ended
                elif stop is not None and stop(said.row, ids[said.row]):
                    ended[said.row] = "stop"
                    closed.add(said.row)
    return [
        Generated(ids=tuple(row), log_probs=tuple(own) if return_log_probs else None, ended=why)
        for row, own, why in zip(ids, log_probs, ended, strict=True)
    ]


def stream(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    options: Generation = OPTIONS,
    *,
    numbers: Sequence[int] | None = None,
    closed: set[int] | None = None,
    return_log_probs: bool = True,
) -> Iterator[list[Said]]:
    """As generate, but step by step: the new token of every row that has one.

    A row that the caller puts into `closed` says nothing more: so text that ends a row, which only the caller can read,
    ends it; rows that ended are put there too. Rows count from 0, whatever their numbers.
    """
    check_prompts(prompts, getattr(getattr(unwrap(model), "config", None), "vocab_size", None))
    if numbers is not None and len(numbers) != len(prompts):
        raise ValueError(f"there are {len(numbers)} numbers for {len(prompts)} prompts. Give one a prompt, or none.")
    # a generator's body begins only when it is first asked: what is wrong is said at once
    return writing(
        model,
        prompts,
        options,
        numbers=range(len(prompts)) if numbers is None else numbers,
        closed=set() if closed is None else closed,
        return_log_probs=return_log_probs,
    )


def check_prompts(prompts: Sequence[Sequence[int]], vocab_size: int | None = None) -> None:
    """Refuse a prompt without a token, or with one that the model cannot know."""
    for row, prompt in enumerate(prompts):
        if not len(prompt):
            raise ValueError(
                f"prompt {row} is empty, but a model says what comes after a token. Give <eos> alone, behind which a "
                f"new text begins."
            )
        if min(prompt) < 0 or (vocab_size is not None and max(prompt) >= vocab_size):
            known = "0 or more" if vocab_size is None else f"0 to {vocab_size - 1}"
            raise ValueError(
                f"prompt {row} has tokens from {min(prompt)} to {max(prompt)}, expected {known}. Encode it with the "
                f"tokenizer that the model learned with."
            )


def writing(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    options: Generation,
    *,
    numbers: Sequence[int],
    closed: set[int],
    return_log_probs: bool,
) -> Iterator[list[Said]]:
    """The steps of a stream; inference mode ends before each is handed out, so that the caller never works in it."""
    if not prompts:
        return
    with evaluating(model):
        batch = Texts(model, prompts, options, numbers=numbers, closed=closed, return_log_probs=return_log_probs)
    try:
        while batch.live:
            with evaluating(model):
                steps = batch.advance()
            for step in steps:
                said = [one for one in step if one.row not in closed]
                closed.update(one.row for one in said if one.ended is not None)
                if said:
                    yield said
            with evaluating(model):
                batch.leave()
    finally:
        batch.step.close()


class Texts:
    """Texts side by side. `place` is where the next token of each stands; `live` are the rows still in the batch."""

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
        self.sizes = [len(prompt) for prompt in prompts]
        self.live, self.place, longest = list(range(len(prompts))), min(self.sizes), max(self.sizes)
        self.device = device_of(model)
        rows = [[*prompt, *[PAD] * (longest - len(prompt))] for prompt in prompts]
        self.prompts = torch.tensor(rows, device=self.device)
        self.lengths = torch.tensor(self.sizes, device=self.device)
        order = torch.tensor(list(numbers), device=self.device)
        read = model.features(self.prompts[:, : self.place], model.start(len(rows)))
        self.logits: Float[Tensor, "n vocab"] = model.readout(read.features[:, -1])
        self.chooser = Chooser(options, numbers=order, texts=self.prompts, vocab_size=self.logits.shape[1])
        self.last = longest + options.max_tokens
        self.step: StepFunction = step_function_of(model, read.state, limit=self.last - self.place - 1)
        self.tokens: Int[Tensor, " n"] | None = None

    def advance(self) -> list[list[Said]]:
        """A few steps, then a look at what was said in them."""
        pending: list[tuple[int, Tensor, Tensor]] = []
        while self.place < self.last and len(pending) < steps_between_looks(self.device):
            if self.tokens is not None:
                self.logits = self.step(self.tokens)
            self.tokens = self.chooser(self.logits, self.place + 1 - self.lengths)
            if self.place < self.prompts.shape[1]:
                own = self.prompts[:, self.place]
                self.tokens = torch.where(self.place < self.lengths, own, self.tokens)
            self.chooser.record(self.tokens)
            values = log_prob_of(self.logits, self.tokens) if self.return_log_probs else not_numbers(self.logits)
            pending.append((self.place, self.tokens, values))
            self.place += 1
        return [self.look(*step) for step in pending]

    def look(self, place: int, tokens: Int[Tensor, " n"], values: Float[Tensor, " n"]) -> list[Said]:
        """What rows said at this place; those still in their prompts said nothing."""
        said = []
        for row, token, value in zip(self.live, tokens.tolist(), values.tolist(), strict=True):
            count = place + 1 - self.sizes[row]
            if count < 1 or count > self.options.max_tokens or row in self.closed:
                continue
            check_number(value, row, what="prompt")
            ended = "stop" if token in self.options.stop_ids else None
            if ended is None and count >= self.options.max_tokens:
                ended = "tokens"
            log_prob = value if self.return_log_probs else None
            said.append(Said(row=row, token=token, log_prob=log_prob, ended=ended))
        return said

    def leave(self) -> None:
        """Rows that are closed leave the batch, once that pays."""
        kept = [place for place, row in enumerate(self.live) if row not in self.closed]
        if not kept or self.place >= self.last:
            self.live = []
        elif self.step.can_select_batch and leaving_pays(len(self.live) - len(kept), len(self.live)):
            rows = torch.tensor(kept, device=self.device)
            self.live = [self.live[place] for place in kept]
            assert self.tokens is not None
            self.tokens, self.lengths = self.tokens.index_select(0, rows), self.lengths.index_select(0, rows)
            self.prompts = self.prompts.index_select(0, rows)
            self.chooser.keep(rows)
            self.step.select_batch(rows)


def not_numbers(logits: Float[Tensor, "n vocab"]) -> Float[Tensor, " n"]:
    """NaN for a row that has no softmax, else 0: what a log-probability would tell, without the softmax."""
    largest = logits.amax(dim=1)
    return largest - largest
