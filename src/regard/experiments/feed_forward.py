"""The position-wise feed-forward layer: it computes features of each position alone, and attention relates positions.

The text: attention models dependencies between positions, the feed-forward layer transforms each position on its own,
with the same weights, and crosses no position.

First, the Jacobian of a layer over positions: block (i, j) has the derivatives of output i with respect to input j. For
the feed-forward layer all blocks off the diagonal have to be exactly zero, for self-attention not. Second, what is lost
without it: every position has bits, and a Transformer layer with it, and stacks of self-attention alone with equal
parameters, wider or deeper, learn three functions of them

    feature     the parity of three bits of the position
    relation    a bit times the same bit one position earlier
    copy        a bit one position earlier

Refuted if the feed-forward layer has a block off the diagonal, if a stack of attention learns features as well, or if
one learns relations worse.

Vaswani et al. 2017, section 3.3. https://arxiv.org/abs/1706.03762
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.masks import ComposableMask, causal
from regard.attention.positions import Sinusoidal
from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, exceeds, negated
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.lib.small_transformer import SmallBlock, seeded
from regard.experiments.lib.training import fit
from regard.layers import FeedForward, PreNorm
from regard.tasks import count_parameters

TITLE = Title(en="The feed-forward layer", zh="前馈层")
CLAIM = Title(
    en=(
        "The feed-forward layer is position-wise: its Jacobian over positions is block-diagonal. Without it attention "
        "still relates positions, but learns features of a position worse."
    ),
    zh="前馈层逐位置独立：它对各位置的雅可比矩阵是块对角的。没有它，注意力仍能建立位置间的关系，但学不好单个位置的特征。",
)
FULL = {"seeds": 10, "steps": 2000}
CHINESE = {
    "feature": "特征",
    "relation": "关系",
    "copy": "复制",
    "with feed-forward": "有前馈层",
    "attention only, wider": "只有注意力（更宽）",
    "attention only, deeper": "只有注意力（更深）",
    "Jacobian: feed-forward": "雅可比矩阵：前馈层",
    "Jacobian: self-attention": "雅可比矩阵：自注意力",
    "input position": "输入位置",
    "output position": "输出位置",
    "Accuracy (bars: spread)": "准确率（误差棒：标准差）",
    "accuracy": "准确率",
}
FULL_SYSTEM, WIDER, DEEPER = "with feed-forward", "attention only, wider", "attention only, deeper"
DEPTHS = {FULL_SYSTEM: 1, WIDER: 1, DEEPER: 3}
COLOURS = {FULL_SYSTEM: BLUE, WIDER: ORANGE, DEEPER: GREEN}
FUNCTIONS = ("feature", "relation", "copy")
NUM_BITS, NUM_HEADS, MARGIN = 8, 4, 0.01
"""Bits of a position, heads of a layer, and a difference of accuracies that matters."""


class AttentionBlock(nn.Module):
    """A block of attention with its residual connection, and no feed-forward layer."""

    def __init__(self, *, size: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, num_heads)
        self.attention_norm = PreNorm(hidden_size=size)

    def forward(self, states: Float[Tensor, "B L size"], mask: ComposableMask | None) -> Float[Tensor, "B L size"]:
        outputs: Tensor = self.attention_norm(states, lambda normed: self.attention(normed, mask=mask).context)
        return outputs


class BitModel(nn.Module):
    """Bits to three logits at each position."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__()
        # heads divide the size
        size *= NUM_HEADS
        block = SmallBlock if name == FULL_SYSTEM else AttentionBlock
        self.input, self.positions = nn.Linear(NUM_BITS, size), Sinusoidal(hidden_size=size)
        self.blocks = nn.ModuleList(block(size=size, num_heads=NUM_HEADS) for _ in range(DEPTHS[name]))
        self.norm, self.output = nn.LayerNorm(size), nn.Linear(size, len(FUNCTIONS))

    def forward(self, bits: Float[Tensor, "B L bits"]) -> Float[Tensor, "B L functions"]:
        states = self.positions(self.input(bits))
        for block in self.blocks:
            states = block(states, causal())
        logits: Tensor = self.output(self.norm(states))
        return logits


def functions_of(bits: Float[Tensor, "B L bits"]) -> Float[Tensor, "B L functions"]:
    """The three functions of bits +1 and -1, each +1 or -1."""
    # the first position has nothing before it, and takes itself
    before = torch.cat([bits[:, :1], bits[:, :-1]], dim=1)
    return torch.stack([bits[..., :3].prod(dim=-1), bits[..., 3] * before[..., 3], before[..., 4]], dim=-1)


def draw(count: int, length: int) -> Float[Tensor, "B L bits"]:
    """Random bits, +1 and -1."""
    return torch.randint(2, (count, length, NUM_BITS)) * 2.0 - 1.0


def loss_of(model: nn.Module, bits: Float[Tensor, "B L bits"]) -> Float[Tensor, ""]:
    """Nats per function and position."""
    return F.binary_cross_entropy_with_logits(model(bits), (functions_of(bits) + 1) / 2)


def train_and_evaluate(seed: int, name: str, size: int, *, steps: int, length: int) -> list[float]:
    """The accuracy of each function on new bits."""
    with seeded(seed):
        model = BitModel(name, size)
        fit(model, lambda step: loss_of(model, draw(32, length)), steps=steps)
        bits = draw(500, length)
        with torch.no_grad():
            correct = (model(bits) > 0) == (functions_of(bits) > 0)
    shares: list[float] = correct.double().mean(dim=(0, 1)).tolist()
    return shares


def block_norms(layer: Callable[[Tensor], Tensor], inputs: Float[Tensor, "L size"]) -> Float[Tensor, "L L"]:
    """The norm of each block of the Jacobian: the derivatives of output i with respect to input j."""
    # (L, size, L, size) -> norms over both sizes
    jacobian: Any = torch.autograd.functional.jacobian(layer, inputs)
    return jacobian.norm(dim=(1, 3))


def off_diagonal(blocks: Float[Tensor, "L L"]) -> float:
    """The largest norm of a block off the diagonal."""
    return (blocks - blocks.diagonal().diag()).max().item()


def run(*, seed: int = 0, seeds: int = 5, steps: int = 400, size: int = 32, length: int = 12) -> Finding:
    """Compute both Jacobians, then train every system from `seeds` seeds."""
    with seeded(seed):
        inputs = torch.randn(length, size)
        feed_forward, attention = FeedForward(hidden_size=size, feed_forward_size=4 * size), MultiHeadAttention(size, 4)
        # attention takes batches: (1, L, size)
        jacobians = {
            "feed-forward": block_norms(feed_forward, inputs),
            "self-attention": block_norms(lambda states: attention(states[None]).context[0], inputs),
        }
    sizes = equal_sizes(BitModel, list(DEPTHS), reference=FULL_SYSTEM, size=max(size // NUM_HEADS, 1))
    accuracies = {
        name: [train_and_evaluate(1000 * seed + index, name, own, steps=steps, length=length) for index in range(seeds)]
        for name, own in sizes.items()
    }
    rows: list[Row] = []
    for name, by_seed in accuracies.items():
        columns = dict(zip(FUNCTIONS, zip(*by_seed, strict=True), strict=True))
        shares: Row = {function: Measured.of(column) for function, column in columns.items()}
        rows.append({"system": name, "parameters": count_parameters(BitModel(name, sizes[name])), **shares})
    holds, verdict = judge({name: off_diagonal(blocks) for name, blocks in jacobians.items()}, accuracies)
    return Finding(
        name="feed_forward",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, jacobians=jacobians, accuracies=accuracies),
    )


def judge(
    largest: Mapping[str, float], accuracies: Mapping[str, Sequence[Sequence[float]]]
) -> tuple[bool | None, Title]:
    """Block-diagonal: exactly. Lost: features of both stacks of attention, and relations of neither."""
    by_function = {
        function: {name: [shares[index] for shares in by_seed] for name, by_seed in accuracies.items()}
        for index, function in enumerate(FUNCTIONS)
    }
    feature, relation = by_function["feature"], by_function["relation"]
    diagonal = largest["feed-forward"] == 0.0 < largest["self-attention"]
    lost = {name: exceeds(feature[FULL_SYSTEM], feature[name], margin=MARGIN) for name in (WIDER, DEEPER)}
    related = all_of(
        *(negated(exceeds(relation[FULL_SYSTEM], relation[name], margin=MARGIN)) for name in (WIDER, DEEPER))
    )
    measured = {
        function: {name: str(Measured.of(values)) for name, values in by_name.items()}
        for function, by_name in by_function.items()
    }
    worse = {True: "clearly worse", False: "not worse", None: "worse, but within the spread"}
    still = {True: "are still learned as well", False: "are learned worse too", None: "may be learned worse too"}
    english = (
        f"The largest block off the diagonal is {digits(largest['feed-forward'])} for the feed-forward layer and "
        f"{digits(largest['self-attention'])} for self-attention: {'' if diagonal else 'not '}position-wise. Features "
        f"of a position: {FULL_SYSTEM} {measured['feature'][FULL_SYSTEM]}, "
        + ", ".join(f"{name} {measured['feature'][name]} ({worse[lost[name]]})" for name in lost)
        + f". Relations {still[related]}: "
        + ", ".join(measured["relation"].values())
        + "."
    )
    worse = {True: "明显更差", False: "并不更差", None: "更差，但差异在误差范围内"}
    still = {True: "仍学得一样好", False: "也学得更差", None: "可能也学得更差"}
    chinese = (
        f"非对角块的最大范数：前馈层为 {digits(largest['feed-forward'])}，"
        f"自注意力为 {digits(largest['self-attention'])}。"
        f"前馈层{'' if diagonal else '并不'}逐位置独立。单个位置的特征：{CHINESE[FULL_SYSTEM]} "
        f"{measured['feature'][FULL_SYSTEM]}，"
        + "，".join(f"{CHINESE[name]} {measured['feature'][name]}（{worse[lost[name]]}）" for name in lost)
        + f"。位置间的关系{still[related]}，依次为："
        + "，".join(measured["relation"].values())
        + "。"
    )
    return all_of(diagonal, *lost.values(), related), Title(en=english, zh=chinese)


def draw_figure(
    figure: Any, *, jacobians: Mapping[str, Tensor], accuracies: Mapping[str, Sequence[Sequence[float]]]
) -> None:
    """Both Jacobians as images, and the accuracy of each function."""
    *images, right = panels(figure, CLAIM, 3)
    for axes, (name, blocks) in zip(images, jacobians.items(), strict=True):
        axes.imshow(blocks.tolist(), cmap="Blues", vmin=0)
        style_axes(axes, title=f"Jacobian: {name}", x="input position", y="output position")
    for number, (name, by_seed) in enumerate(accuracies.items()):
        values = [Measured.of(column) for column in zip(*by_seed, strict=True)]
        right.bar(
            [position + 0.27 * (number - 1) for position in range(len(FUNCTIONS))],
            [value.mean for value in values],
            0.24,
            yerr=[value.spread for value in values],
            color=COLOURS[name],
            capsize=3,
            label=label(name),
        )
    right.axhline(0.5, color=GREY, linestyle=":")
    right.set_xticks(range(len(FUNCTIONS)), [label(function) for function in FUNCTIONS])
    right.set_ylim(0.4, 1.3)
    # no accuracy is above 1; the space is for the legend
    right.set_yticks([0.4, 0.6, 0.8, 1.0])
    right.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="upper left")
    style_axes(right, title="Accuracy (bars: spread)", x="", y="accuracy")
