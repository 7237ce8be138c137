"""Heads specialise: each head of a trained Transformer does a task of its own, as its weights and its removal show.

A GPT with two layers of four heads is trained to give three things at every position of a random text at once:

    previous    the symbol before                   position, relative
    first       the first symbol of the text        position, absolute
    marked      the one symbol that bears a mark     content

Whether heads have specialised is measured twice: by where their weights are (before, first, marked; entropy, distance),
and by ablation, in which weights become zeros and the loss of accuracy in every task is counted: for each head alone,
and for all heads of a kind, those whose weight is largest on the key of one task, since several heads may do the same.
The selectivity is the share of all losses that falls on each head's own worst task: 1 if every head matters for one
task only, 1/3 if for all three alike. Refuted if it is not clearly above 2/3, the middle, or if a task does not lose
more by the removal of its own kind of heads than by that of another.
Clark et al. 2019, for behaviour by weights. https://arxiv.org/abs/1906.04341
Voita et al. 2019, for ablation. https://arxiv.org/abs/1905.09418
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.analysis import entropy, mean_distance
from regard.attention import intervene, trace
from regard.contracts import AttentionMap, Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, is_above
from regard.experiments.lib.drawing import panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit
from regard.models.language_modeling import GPT, GPTConfig

TITLE = Title(en="Heads specialise", zh="注意力头的分工")
CLAIM = Title(
    en=(
        "Heads specialise: each attends in a way of its own (to the token before, to a position, to a content), "
        "and removing the heads of one kind harms their task and not the others."
    ),
    zh="注意力头各有分工：每个头有自己的关注方式（前一个词元、某个位置、某种内容），去掉某一类头只影响对应的任务。",
)
CHINESE = {
    "seed": "种子",
    "layer": "层",
    "head": "头",
    "layer {} head {}": "第 {} 层，头 {}",
    "entropy": "熵",
    "distance": "距离",
    "on previous": "“前一个”上的权重",
    "on first": "“首个”上的权重",
    "on marked": "“标记”上的权重",
    "loss previous": "“前一个”的准确率降幅",
    "loss first": "“首个”的准确率降幅",
    "loss marked": "“标记”的准确率降幅",
    "previous": "前一个",
    "first": "首个",
    "marked": "标记",
    "Where the weights are (first seed)": "权重在哪里（第一个种子）",
    "Accuracy lost without the head (first seed)": "去掉该头后准确率的降幅（第一个种子）",
    "Accuracy lost without all heads of a kind": "去掉某一类头后准确率的降幅",
    "all on {}": "关注“{}”的头",
    "attends to": "关注",
    "task": "任务",
}
TASKS = ("previous", "first", "marked")
MIDDLE = 2 / 3
"""Selectivity halfway between 1/3, for three tasks alike, and 1."""

NEEDED = 0.05
"""The accuracy that a task must lose without a head that it needs."""


@dataclass(frozen=True)
class MarkedText:
    """Symbols, of which one bears a mark, and the answers for every task; not all positions have all answers."""

    ids: Int[Tensor, "B L"]
    marked: Int[Tensor, " B"]
    answers: dict[str, Int[Tensor, "B L"]]
    is_asked: Bool[Tensor, "B L"]


def draw_text(count: int, *, length: int, num_symbols: int) -> MarkedText:
    """Random symbols; the mark is a second form of the symbol, and later positions ask for it."""
    symbols = torch.randint(num_symbols, (count, length))
    # neither the first symbol nor the last ones, after which there would be few questions
    marked = torch.randint(1, length // 2 + 1, (count,))
    rows, positions = torch.arange(count), torch.arange(length)
    ids = symbols.clone()
    ids[rows, marked] += num_symbols
    answers = {
        "previous": symbols.roll(1, dims=1),
        "first": symbols[:, :1].expand(-1, length),
        "marked": symbols[rows, marked][:, None].expand(-1, length),
    }
    # two positions after the mark, so that it is neither the own position nor the one before
    return MarkedText(ids=ids, marked=marked, answers=answers, is_asked=positions >= marked[:, None] + 2)


class ThreeTasks(nn.Module):
    """A GPT with a readout for every task."""

    def __init__(self, *, num_symbols: int, length: int, size: int, num_heads: int, num_layers: int) -> None:
        super().__init__()
        config = GPTConfig(
            vocab_size=2 * num_symbols,
            hidden_size=size,
            num_layers=num_layers,
            num_heads=num_heads,
            feed_forward_size=2 * size,
            context=length,
            dropout=0.0,
        )
        self.gpt = GPT(config)
        self.readouts = nn.ModuleDict({task: nn.Linear(size, num_symbols) for task in TASKS})

    def forward(self, text: MarkedText) -> dict[str, Float[Tensor, "asked symbols"]]:
        """Logits of every task at the positions with all answers."""
        features = self.gpt.features(text.ids, self.gpt.start(len(text.ids))).features[text.is_asked]
        return {task: readout(features) for task, readout in self.readouts.items()}


@dataclass(frozen=True, kw_only=True)
class Head:
    """Where the weights of a head are, and the accuracy that every task loses without it."""

    layer: int
    number: int
    entropy: float
    distance: float
    attends: dict[str, float]
    losses: dict[str, float]

    @property
    def kind(self) -> str:
        """The task on whose key the head has most weight."""
        return max(self.attends, key=self.attends.__getitem__)

    @property
    def worst(self) -> str:
        """The task that loses most without the head."""
        return max(self.losses, key=self.losses.__getitem__)


@dataclass(frozen=True, kw_only=True)
class TrainedHeads:
    """The heads of one model, its accuracy with all of them, and what it loses without all heads of a kind."""

    accuracy: dict[str, float]
    heads: list[Head]
    losses: dict[str, dict[str, float]]

    @property
    def selectivity(self) -> float:
        """The share of the losses that falls on each head's worst task; 1/3 if there are none."""
        total = math.fsum(sum(head.losses.values()) for head in self.heads)
        worst = math.fsum(max(head.losses.values()) for head in self.heads)
        return worst / total if total > 0 else 1 / len(TASKS)

    def own_loss(self, task: str) -> float:
        """What a task loses without its own kind of heads."""
        return self.losses[task][task]

    def other_loss(self, task: str) -> float:
        """What a task loses at most without another kind."""
        return max(losses[task] for kind, losses in self.losses.items() if kind != task)


@torch.no_grad()
def accuracies(model: ThreeTasks, text: MarkedText) -> dict[str, float]:
    """The share of right answers in every task."""
    return {
        task: (logits.argmax(dim=-1) == text.answers[task][text.is_asked]).double().mean().item()
        for task, logits in model(text).items()
    }


def lost_without(
    model: ThreeTasks, text: MarkedText, removed: Sequence[tuple[str, int]], complete: dict[str, float]
) -> dict[str, float]:
    """The accuracy that every task loses if the weights of these heads, by module path and number, become zeros."""

    def remove(path: str, attention: AttentionMap) -> Tensor:
        weights = attention.weights.clone()
        weights[:, [number for layer, number in removed if layer == path]] = 0.0
        return weights

    with intervene(model, remove):
        reduced = accuracies(model, text)
    # a head whose removal helps has no loss
    return {task: max(complete[task] - reduced[task], 0.0) for task in TASKS}


def analyse(model: ThreeTasks, text: MarkedText) -> TrainedHeads:
    """The behaviour of every head, and the losses without it and without its kind."""
    with torch.no_grad(), trace(model) as maps:
        model(text)
    complete = accuracies(model, text)
    places, heads = [], []
    for layer, path in enumerate(maps):
        weights = maps[path][0].weights
        for number in range(weights.shape[1]):
            own = weights[:, number]
            places.append((path, number))
            heads.append(
                Head(
                    layer=layer + 1,
                    number=number + 1,
                    # texts in the place of heads: one mean for each, averaged
                    entropy=entropy(own)[text.is_asked].mean().item(),
                    distance=mean_distance(own).mean().item(),
                    attends=weight_on(own, text),
                    losses=lost_without(model, text, [(path, number)], complete),
                )
            )
    kinds = {task: [place for place, head in zip(places, heads, strict=True) if head.kind == task] for task in TASKS}
    losses = {task: lost_without(model, text, removed, complete) for task, removed in kinds.items()}
    return TrainedHeads(accuracy=complete, heads=heads, losses=losses)


def weight_on(weights: Float[Tensor, "B Q K"], text: MarkedText) -> dict[str, float]:
    """The mean weight on the key of every task, over the positions that are asked."""
    length = weights.shape[1]
    # the key of each task for every query: (B, Q)
    keys = {
        "previous": (torch.arange(length) - 1).clamp_min(0).expand(weights.shape[:2]),
        "first": torch.zeros(weights.shape[:2], dtype=torch.int64),
        "marked": text.marked[:, None].expand(weights.shape[:2]),
    }
    return {
        task: weights.gather(2, index.unsqueeze(-1))[..., 0][text.is_asked].mean().item()
        for task, index in keys.items()
    }


def train_and_analyse(
    seed: int, *, steps: int, size: int, num_heads: int, length: int, num_symbols: int
) -> TrainedHeads:
    """Train on new texts at every step, then remove one head after the other."""
    with seeded(seed):
        model = ThreeTasks(num_symbols=num_symbols, length=length, size=size, num_heads=num_heads, num_layers=2)

        def loss_of(step: int) -> Tensor:
            text = draw_text(64, length=length, num_symbols=num_symbols)
            losses = [
                F.cross_entropy(logits, text.answers[task][text.is_asked]) for task, logits in model(text).items()
            ]
            return torch.stack(losses).sum()

        fit(model, loss_of, steps=steps)
        return analyse(model, draw_text(256, length=length, num_symbols=num_symbols))


def run(
    *,
    seed: int = 0,
    repeats: int = 5,
    steps: int = 400,
    size: int = 32,
    num_heads: int = 4,
    length: int = 16,
    num_symbols: int = 8,
) -> Finding:
    """Train several models, remove every head of each, and compare what is lost."""
    trained = [
        train_and_analyse(
            1000 * seed + index, steps=steps, size=size, num_heads=num_heads, length=length, num_symbols=num_symbols
        )
        for index in range(repeats)
    ]
    rows: list[Row] = [
        {
            "seed": 1000 * seed + index,
            "layer": head.layer,
            "head": head.number,
            "entropy": head.entropy,
            "distance": head.distance,
            **{f"on {task}": round(value, 3) for task, value in head.attends.items()},
            **{f"loss {task}": round(value, 3) for task, value in head.losses.items()},
        }
        for index, model in enumerate(trained)
        for head in model.heads
    ]
    holds, verdict = judge(trained)
    draw = partial(draw_figure, trained=trained)
    return Finding(name="heads_specialise", claim=CLAIM, rows=tuple(rows), verdict=verdict, holds=holds, draw=draw)


def judge(trained: Sequence[TrainedHeads]) -> tuple[bool | None, Title]:
    """Losses fall on one task per head, and every task loses more by its own kind of heads than by another."""
    selectivity = [model.selectivity for model in trained]
    outcomes = [is_above(selectivity, [MIDDLE] * len(trained))]
    own = {task: [model.own_loss(task) for model in trained] for task in TASKS}
    other = {task: [model.other_loss(task) for model in trained] for task in TASKS}
    outcomes += [is_above(own[task], other[task]) for task in TASKS]
    # heads that some task needs, and tasks that need no single head, because several heads do the same
    needed = [head for model in trained for head in model.heads if max(head.losses.values()) > NEEDED]
    agreeing = sum(head.worst == head.kind for head in needed)
    shared = [task for task in TASKS if task not in {head.worst for head in needed}]
    entropies = [
        digits(statistics.fmean(head.entropy for model in trained for head in model.heads if head.layer == layer))
        for layer in (1, 2)
    ]
    share = str(Measured.of(selectivity))
    pairs = [(task, Measured.of(own[task]), Measured.of(other[task])) for task in TASKS]
    without = f"no single head is needed for: {', '.join(shared)}" if shared else "every task needs one"
    words = {True: "the heads specialise", False: "the heads do not specialise", None: "this is not clear"}
    english = (
        f"Accuracy lost without the heads that attend to what a task needs, and at most without another kind: "
        f"{', '.join(f'{task} {one} and {two}' for task, one, two in pairs)}: {words[all_of(*outcomes)]}. Of all "
        f"losses by the removal of single heads {share} fall on the worst task of each head (with all tasks alike "
        f"{1 / 3:.2f}). Of {len(needed)} heads whose removal costs more than {NEEDED:.2f}, {agreeing} attend most to "
        f"what this task needs; {without}. "
        f"Mean entropy: {entropies[0]} nats in layer 1, {entropies[1]} in layer 2."
    )
    words = {True: "各头有分工", False: "各头没有分工", None: "这一点不明显"}
    names = "、".join(CHINESE[task] for task in shared)
    chinese = (
        f"去掉关注某任务所需词元的头，与去掉其他类的头（取最大值），该任务准确率的降幅："
        f"{'，'.join(f'{CHINESE[task]} {one} 与 {two}' for task, one, two in pairs)}：{words[all_of(*outcomes)]}。"
        f"逐个去掉单个头时，准确率的全部降幅中有 {share} 落在各头影响最大的任务上"
        f"（若对各任务影响相同则为 {1 / 3:.2f}）。"
        f"去掉后降幅超过 {NEEDED:.2f} 的头有 {len(needed)} 个，其中 {agreeing} 个主要关注该任务所需的词元；"
        f"{f'不依赖任何单个头的任务：{names}' if shared else '每项任务都依赖某个头'}。"
        f"平均熵：第 1 层 {entropies[0]} 纳特，第 2 层 {entropies[1]} 纳特。"
    )
    return all_of(*outcomes), Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, trained: Sequence[TrainedHeads]) -> None:
    """Heat maps of one model: where each head's weights are, what is lost without it; and of all: without a kind."""
    heads = trained[0].heads
    names = [label("layer {} head {}").format(head.layer, head.number) for head in heads]
    kinds = [label("all on {}").format(label(kind)) for kind in TASKS]
    # the mean over the models: kinds are comparable between models, heads are not
    losses = [
        {task: statistics.fmean(model.losses[kind][task] for model in trained) for task in TASKS} for kind in TASKS
    ]
    for axes, values, rows, heading, bottom in zip(
        panels(figure, CLAIM, 3),
        ([head.attends for head in heads], [head.losses for head in heads], losses),
        (names, names, kinds),
        (
            "Where the weights are (first seed)",
            "Accuracy lost without the head (first seed)",
            "Accuracy lost without all heads of a kind",
        ),
        ("attends to", "task", "task"),
        strict=True,
    ):
        matrix = [[row[task] for task in TASKS] for row in values]
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for row, numbers in enumerate(matrix):
            for column, value in enumerate(numbers):
                # white on dark cells
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", color="w" if value > 0.5 else "k")
        axes.set_xticks(range(len(TASKS)), [label(task) for task in TASKS])
        axes.set_yticks(range(len(rows)), rows)
        style_axes(axes, title=heading, x=bottom, y="")
