"""Why a language model needs the causal mask: without it, the model copies the next token and learns nothing else.

The language: two random numbers, then each is the sum of the two before it, plus 0 or 1 at random, modulo V. A step is
legal or not. The random bit costs log 2 nats: a loss without access to the next token cannot be lower, and a model of
the rule reaches it. A small Transformer is trained with and without the mask, all else equal, and then generates.
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
from regard.contracts import Title
from regard.experiments.lib.drawing import BLUE, GREY, ORANGE, label_point, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.small_transformer import SmallTransformer, seeded
from regard.experiments.lib.training import fit

TITLE = Title(en="Without the causal mask", zh="没有因果掩码")
CLAIM = Title(
    en=(
        "Without the causal mask a language model cheats: its training loss collapses because it copies the "
        "next word, and it cannot generate."
    ),
    zh="没有因果掩码，语言模型会作弊：它照抄下一个词，训练损失骤降，却不能生成文本。",
)


@dataclass(frozen=True, kw_only=True)
class Language:
    """Sums of the two numbers before, plus 0 or 1 at random."""

    num_symbols: int
    length: int

    @property
    def floor(self) -> float:
        """The entropy per symbol in nats, a lower bound of the loss: the second number, then the random bits."""
        # the first number is given, the second one random, and each of the others costs one bit
        return (math.log(self.num_symbols) + (self.length - 2) * math.log(2)) / (self.length - 1)

    @property
    def chance(self) -> float:
        """The probability that a random symbol is legal."""
        return 2 / self.num_symbols

    def draw(self, count: int) -> Int[Tensor, "count length"]:
        """Sample sequences."""
        symbols = [torch.randint(self.num_symbols, (count,)) for _ in range(2)]
        while len(symbols) < self.length:
            # sampled as columns, because a number depends on the two before it
            symbols.append((symbols[-2] + symbols[-1] + torch.randint(2, (count,))) % self.num_symbols)
        return torch.stack(symbols, dim=1)

    def legal(self, ids: Int[Tensor, "B length"]) -> Bool[Tensor, "B steps"]:
        """True where a number follows from the two before it."""
        # modulo in torch is never negative, so the difference is 0 or 1 exactly for legal steps
        return (ids[:, 2:] - ids[:, 1:-1] - ids[:, :-2]) % self.num_symbols < 2


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The training losses of a model, its loss with the causal mask, and its share of legal steps by position."""

    losses: list[float]
    masked_loss: float
    legal: list[float]

    @property
    def final_loss(self) -> float:
        """The mean training loss over the last tenth of the steps."""
        # at least one step, in runs of less than ten
        return statistics.fmean(self.losses[-max(len(self.losses) // 10, 1) :])


def loss_of(model: SmallTransformer, ids: Int[Tensor, "B L"], mask: ComposableMask | None) -> Float[Tensor, ""]:
    """Nats per symbol, each predicted at the position before it."""
    # (B, L - 1, vocab) -> (B x (L - 1), vocab)
    return F.cross_entropy(model(ids[:, :-1], mask).flatten(0, 1), ids[:, 1:].flatten())


def train(model: SmallTransformer, language: Language, mask: ComposableMask | None, *, steps: int) -> list[float]:
    """Train on new samples at every step, so that the training loss is also the loss on unseen text."""
    return fit(model, lambda step: loss_of(model, language.draw(32), mask), steps=steps)


@torch.no_grad()
def generate(
    model: SmallTransformer, language: Language, mask: ComposableMask | None, *, count: int
) -> Int[Tensor, "count L"]:
    """PaddedTokens that the model generates from two numbers; later positions do not exist yet."""
    ids = language.draw(count)[:, :2]
    # only the prefix exists, so that without the mask too there is no next symbol to copy
    while ids.shape[1] < language.length:
        # the last position predicts the next symbol; those before it exist already
        probabilities = model(ids, mask)[:, -1].softmax(dim=-1)
        ids = torch.cat([ids, torch.multinomial(probabilities, 1)], dim=1)
    return ids


def train_and_evaluate(seed: int, language: Language, mask: ComposableMask | None, *, steps: int, size: int) -> Trained:
    """Train with a mask, then evaluate with the causal mask and in generation."""
    with seeded(seed):
        model = SmallTransformer(vocab_size=language.num_symbols, size=size, num_heads=4, num_layers=2)
        losses = train(model, language, mask, steps=steps)
        # also for the model trained without the mask: the loss shows what it learned besides copying
        with torch.no_grad():
            masked_loss = loss_of(model, language.draw(256), causal()).item()
        # (sequences, steps) -> one share of legal steps per position
        legal = language.legal(generate(model, language, mask, count=256)).double().mean(dim=0)
    return Trained(losses=losses, masked_loss=masked_loss, legal=legal.tolist())


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
    """Train `repeats` models with the causal mask and `repeats` with `unmasked` in its place."""
    language = Language(num_symbols=num_symbols, length=length)
    masks: dict[str, ComposableMask | None] = {"causal mask": causal(), "no mask": unmasked}
    trained = {
        name: [
            train_and_evaluate(1000 * seed + index, language, mask, steps=steps, size=size) for index in range(repeats)
        ]
        for name, mask in masks.items()
    }
    rows: list[Row] = [
        {
            "model": name,
            "training loss": Measured.of(run.final_loss for run in runs),
            "loss, causal mask": Measured.of(run.masked_loss for run in runs),
            "legal steps": Measured.of(statistics.fmean(run.legal) for run in runs),
        }
        for name, runs in trained.items()
    ]
    best = {"training loss": language.floor, "loss, causal mask": language.floor, "legal steps": 1.0}
    holds, verdict = judge(trained["causal mask"], trained["no mask"], language)
    return Finding(
        name="causal_mask",
        claim=CLAIM,
        rows=(*rows, {"model": "best possible", **best}),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, trained=trained, language=language),
    )


def judge(masked: list[Trained], unmasked: list[Trained], language: Language) -> tuple[bool, Title]:
    """A valid loss is near the entropy, a collapsed one below half of it; failing is nearer to chance than to 1."""
    losses = [Measured.of(run.final_loss for run in runs) for runs in (masked, unmasked)]
    legal = [Measured.of(statistics.fmean(run.legal) for run in runs) for runs in (masked, unmasked)]
    masked_loss = Measured.of(run.masked_loss for run in unmasked)
    # slightly below the entropy is possible, as the loss is measured on a finite sample
    is_valid = 0.97 < losses[0].mean / language.floor < 1.1
    collapses = losses[1].mean < 0.5 * language.floor
    generates, fails = legal[0].mean > 0.9, legal[1].mean < (1 + language.chance) / 2
    english = (
        f"The entropy of the language is {language.floor:.3f} nats. With the mask training ends at {losses[0]}, "
        f"{'within' if is_valid else 'not within'} a tenth of that, and {legal[0].mean:.0%} of the generated steps are "
        f"legal. Without the mask it ends at {losses[1]}: {'a collapse' if collapses else 'no collapse'}. Under the "
        f"causal mask that model's loss is {masked_loss}, and {legal[1].mean:.0%} of its generated steps are legal "
        f"({language.chance:.0%} by chance): it {'cannot' if fails else 'can'} generate."
    )
    chinese = (
        f"这种语言的熵是 {language.floor:.3f} 纳特。有掩码时训练损失最终为 {losses[0]}，"
        f"{'在' if is_valid else '不在'}熵的一成以内，生成的步有 {legal[0].mean:.0%} 合法。"
        f"没有掩码时最终为 {losses[1]}：{'骤降' if collapses else '没有骤降'}。"
        f"这个模型在因果掩码下的损失是 {masked_loss}，生成的步有 "
        f"{legal[1].mean:.0%} 合法（随机水平为 {language.chance:.0%}）：它{'不能' if fails else '能'}生成。"
    )
    return is_valid and collapses and generates and fails, Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, trained: dict[str, list[Trained]], language: Language) -> None:
    """Training losses, and legal steps in generation.

    Only the last position has no next token to copy: there the model without a mask learns a little too.
    """
    left, right = panels(figure, CLAIM, 2)
    for (name, runs), colour in zip(trained.items(), (BLUE, ORANGE), strict=True):
        for training in runs:
            left.plot(training.losses, color=colour, linewidth=0.9, alpha=0.7)
        last = len(runs[0].losses) - 1
        label_point(left, last, statistics.fmean(run.final_loss for run in runs), name, colour, side="right above")
        # from runs with a share per position to positions with a share per run
        means = [Measured.of(values) for values in zip(*(run.legal for run in runs), strict=True)]
        # the first two symbols are free, so steps are counted from the third
        positions = range(3, 3 + len(means))
        right.errorbar(
            positions, [m.mean for m in means], [m.spread for m in means], color=colour, marker="o", capsize=3
        )
        label_point(right, positions[-1], means[-1].mean, name, colour, side="right")
    left.axhline(language.floor, color=GREY, linestyle=":", zorder=0)
    label_point(left, 0, language.floor, "entropy floor", GREY, side="right above")
    left.set_ylim(0, 1.3 * math.log(language.num_symbols))
    right.axhline(language.chance, color=GREY, linestyle=":", zorder=0)
    label_point(right, language.length, language.chance, "chance", GREY, side="right below")
    right.set_ylim(0, 1.05)
    right.set_xlim(2, language.length * 1.25)
    right.set_xticks(range(3, language.length + 1, 2))
    style_axes(left, title="Training loss", x="step", y="loss (nats per symbol)")
    style_axes(
        right, title="Generation: steps that follow the rule", x="position in the sequence", y="share of legal steps"
    )
