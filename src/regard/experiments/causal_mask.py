"""Why a language model must not look ahead: without the causal mask it copies the answer and learns nothing else.

The language: two random numbers, then each is the sum of the two before it, plus 0 or 1 by the toss of a coin, modulo
V. A step is legal or not, and the coin is log 2 nats that nobody can foresee: an honest loss cannot go below, and a
model that knows the rule reaches it. A small Transformer is trained twice, all else equal, and then writes by itself.
Vaswani et al. 2017, section 3.2.3. https://arxiv.org/abs/1706.03762
"""

import math
import statistics
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.masks import ComposableMask, causal
from regard.experiments.lib.drawing import BLUE, GREY, ORANGE, dress, name_at, panels
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.small_transformer import SmallTransformer, seeded

CLAIM = (
    "Without the causal mask a language model cheats: its training loss collapses because it copies the next word, and "
    "it cannot generate."
)


@dataclass(frozen=True, kw_only=True)
class Language:
    """Sums of the two numbers before, give or take a coin."""

    num_symbols: int
    length: int

    @property
    def floor(self) -> float:
        """Nats a symbol that no honest prediction can undercut: the second number, then the coins."""
        return (math.log(self.num_symbols) + (self.length - 2) * math.log(2)) / (self.length - 1)

    @property
    def chance(self) -> float:
        """How often a blind guess is legal."""
        return 2 / self.num_symbols

    def draw(self, count: int) -> Int[Tensor, "count length"]:
        """New sequences."""
        symbols = [torch.randint(self.num_symbols, (count,)) for _ in range(2)]
        while len(symbols) < self.length:
            symbols.append((symbols[-2] + symbols[-1] + torch.randint(2, (count,))) % self.num_symbols)
        return torch.stack(symbols, dim=1)

    def legal(self, ids: Int[Tensor, "B length"]) -> Bool[Tensor, "B steps"]:
        """Whether each number follows from the two before it."""
        return (ids[:, 2:] - ids[:, 1:-1] - ids[:, :-2]) % self.num_symbols < 2


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What one model did: its losses in training, its loss where it cannot look ahead, and its legal steps by place."""

    losses: list[float]
    hidden_loss: float
    legal: list[float]

    @property
    def final_loss(self) -> float:
        """The training loss it ended with, over its last tenth."""
        return statistics.fmean(self.losses[-max(len(self.losses) // 10, 1) :])


def loss_of(model: SmallTransformer, ids: Int[Tensor, "B L"], mask: ComposableMask | None) -> Float[Tensor, ""]:
    """Nats a symbol, each predicted at the position before it."""
    return F.cross_entropy(model(ids[:, :-1], mask).flatten(0, 1), ids[:, 1:].flatten())


def train(model: SmallTransformer, language: Language, mask: ComposableMask | None, *, steps: int) -> list[float]:
    """Adam on sequences drawn afresh, so that the training loss is also the loss on new text."""
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, language.draw(32), mask)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def generate(
    model: SmallTransformer, language: Language, mask: ComposableMask | None, *, count: int
) -> Int[Tensor, "count L"]:
    """PaddedTokens that the model writes from two numbers on: the future is not there to be looked at."""
    ids = language.draw(count)[:, :2]
    while ids.shape[1] < language.length:
        chances = model(ids, mask)[:, -1].softmax(dim=-1)
        ids = torch.cat([ids, torch.multinomial(chances, 1)], dim=1)
    return ids


def try_mask(seed: int, language: Language, mask: ComposableMask | None, *, steps: int, size: int) -> Trained:
    """Train, then look at the model when its future is hidden and when it writes."""
    with seeded(seed):
        model = SmallTransformer(vocab_size=language.num_symbols, size=size, num_heads=4, num_layers=2)
        losses = train(model, language, mask, steps=steps)
        with torch.no_grad():
            hidden_loss = loss_of(model, language.draw(256), causal()).item()
        legal = language.legal(generate(model, language, mask, count=256)).double().mean(dim=0)
    return Trained(losses=losses, hidden_loss=hidden_loss, legal=legal.tolist())


def run(
    *,
    seed: int = 0,
    repeats: int = 3,
    steps: int = 500,
    size: int = 48,
    num_symbols: int = 8,
    length: int = 12,
    unmasked: ComposableMask | None = None,
) -> Finding:
    """Train `repeats` models with the mask and as many without; `unmasked` is what the latter have instead."""
    language = Language(num_symbols=num_symbols, length=length)
    masks: dict[str, ComposableMask | None] = {"causal mask": causal(), "no mask": unmasked}
    trained = {
        name: [try_mask(1000 * seed + place, language, mask, steps=steps, size=size) for place in range(repeats)]
        for name, mask in masks.items()
    }
    rows: list[Row] = [
        {
            "model": name,
            "training loss": Measured.of(one.final_loss for one in runs),
            "loss, future hidden": Measured.of(one.hidden_loss for one in runs),
            "legal steps": Measured.of(statistics.fmean(one.legal) for one in runs),
        }
        for name, runs in trained.items()
    ]
    best = {"training loss": language.floor, "loss, future hidden": language.floor, "legal steps": 1.0}
    holds, verdict = judge(trained["causal mask"], trained["no mask"], language)
    return Finding(
        name="causal_mask",
        claim=CLAIM,
        rows=(*rows, {"model": "best possible", **best}),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, trained=trained, language=language),
    )


def judge(masked: list[Trained], unmasked: list[Trained], language: Language) -> tuple[bool, str]:
    """An honest loss is near the floor, a collapsed one below half of it; failing is nearer to chance than to right."""
    losses = [Measured.of(one.final_loss for one in runs) for runs in (masked, unmasked)]
    legal = [Measured.of(statistics.fmean(one.legal) for one in runs) for runs in (masked, unmasked)]
    hidden = Measured.of(one.hidden_loss for one in unmasked)
    honest = 0.97 < losses[0].mean / language.floor < 1.1
    collapses = losses[1].mean < 0.5 * language.floor
    writes, fails = legal[0].mean > 0.9, legal[1].mean < (1 + language.chance) / 2
    said = (
        f"No honest loss is below {language.floor:.3f} nats. With the mask training ends at {losses[0]}, "
        f"{'within' if honest else 'not within'} a tenth of that, and {legal[0].mean:.0%} of the steps it writes are "
        f"legal. Without the mask it ends at {losses[1]}: {'a collapse' if collapses else 'no collapse'}. With its "
        f"future hidden that model's loss is {hidden}, and {legal[1].mean:.0%} of the steps it writes are legal "
        f"({language.chance:.0%} by blind chance): it {'cannot' if fails else 'can'} generate."
    )
    return honest and collapses and writes and fails, said


def draw_figure(figure: Any, *, trained: dict[str, list[Trained]], language: Language) -> None:
    """Losses in training, and legal steps in writing.

    The last place alone had nothing after it to copy, so that there even the model without a mask learnt a little.
    """
    left, right = panels(figure, CLAIM, 2)
    for (name, runs), colour in zip(trained.items(), (BLUE, ORANGE), strict=True):
        for one in runs:
            left.plot(one.losses, color=colour, linewidth=0.9, alpha=0.7)
        last = len(runs[0].losses) - 1
        name_at(left, last, statistics.fmean(one.final_loss for one in runs), name, colour, side="right above")
        means = [Measured.of(values) for values in zip(*(one.legal for one in runs), strict=True)]
        places = range(3, 3 + len(means))
        right.errorbar(places, [m.mean for m in means], [m.spread for m in means], color=colour, marker="o", capsize=3)
        name_at(right, places[-1], means[-1].mean, name, colour, side="right")
    left.axhline(language.floor, color=GREY, linestyle=":", zorder=0)
    name_at(left, 0, language.floor, "entropy floor", GREY, side="right above")
    left.set_ylim(0, 1.3 * math.log(language.num_symbols))
    right.axhline(language.chance, color=GREY, linestyle=":", zorder=0)
    name_at(right, language.length, language.chance, "blind chance", GREY, side="right below")
    right.set_ylim(0, 1.05)
    right.set_xlim(2, language.length * 1.25)
    right.set_xticks(range(3, language.length + 1, 2))
    dress(left, title="Training loss", x="step", y="loss (nats a symbol)")
    dress(right, title="Writing alone: steps that follow the rule", x="place in the sequence", y="share of legal steps")
