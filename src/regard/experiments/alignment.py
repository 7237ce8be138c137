"""Attention as a word aligner: trained to translate only, it links the words that are translations of each other.

RNNsearch learns from sentence pairs of an invented language, whose word alignment is known but given to no system. Its
links are the source words with the highest weight for each target word of unseen pairs, under teacher forcing. Beside
it, with the alignment error rate: the same model before training, the fixed diagonal, and two aligners that learn from
the same pairs. The claim is refuted if training does not bring the attention clearly below the untrained model and the
diagonal, or if it is wrong more often than right.

An argmax links every target word, so words without a counterpart cost it precision, and a word with two
counterparts recall; "one link per word, at best" has those costs and no others.

Bahdanau, Cho and Bengio 2015, section 5.2. https://arxiv.org/abs/1409.0473
Alignment error rate: Och and Ney 2003. https://aclanthology.org/J03-1002/
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.contracts import BOS, EOS, PAD, PaddedTokens, Title
from regard.data.corpora import InventedLanguage
from regard.data.text import Pair, Tokenizers, TokenizerSettings
from regard.decoding import forced_alignment
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, exceeds, is_above
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit
from regard.metrics import (
    AlignmentQuality,
    DiagonalAligner,
    FastAlign,
    Gold,
    IBMModel1,
    Link,
    alignment_quality,
    best_links,
)
from regard.models.translation import Bahdanau, BahdanauConfig

TITLE = Title(en="Attention as a word aligner", zh="用注意力做词对齐")
CLAIM = Title(
    en="Attention learns to align words without being told which words belong together.",
    zh="没有任何对齐标注，注意力也能学会词对齐。",
)
ATTENTION, UNTRAINED, DIAGONAL, IBM, FAST_ALIGN = (
    "attention",
    "untrained attention",
    "fixed diagonal",
    "IBM Model 1",
    "fast_align model",
)
BEST = "one link per word, at best"
ERRORS = {False: "is wrong too often", None: "may be wrong too often"}
REASONS = {
    "has learned to align": "学会了对齐",
    "is not clearly better": "并不明显更好",
    "is wrong too often": "错误过多",
    "may be wrong too often": "可能错误过多",
}
"""The judgement in Chinese, by that in English."""
CHINESE = {
    ATTENTION: "注意力",
    UNTRAINED: "未训练的注意力",
    DIAGONAL: "固定对角线",
    FAST_ALIGN: "fast_align 模型",
    BEST: "每词一条链接（最好情况）",
    "aligner": "对齐方法",
    "error rate": "对齐错误率",
    "precision": "精确率",
    "recall": "召回率",
    "Alignment error rate (bars: spread)": "对齐错误率（误差棒：标准差）",
    "alignment error rate": "对齐错误率",
    "Weights for a test sentence (boxes: gold)": "一个测试句的权重（方框：标准对齐）",
    "source": "源句",
    "target": "译文",
}
FULL = {"repeats": 10, "num_pairs": 10_000, "steps": 3000, "hidden_size": 64}

LANGUAGE = InventedLanguage()
Words = tuple[list[str], list[str]]


@dataclass(frozen=True, kw_only=True)
class AlignedText:
    """Pairs for training and for the test, their tokenizers, and the gold links of the test."""

    train: list[Pair]
    test: list[Pair]
    tokenizers: Tokenizers
    gold: list[Gold]

    @classmethod
    def draw(cls, seed: int, language: InventedLanguage, num_pairs: int, num_test: int) -> "AlignedText":
        """Generate both splits; a token is a word."""
        train = language.pairs(num_pairs, seed=seed)
        test = language.pairs(num_test, split="test", seed=seed)
        tokenizers = Tokenizers.train(train, TokenizerSettings(kind="words"))
        return cls(
            train=train,
            test=test,
            tokenizers=tokenizers,
            gold=[Gold(frozenset(tokenizers.links(pair) or ())) for pair in test],
        )

    def words(self, pairs: Sequence[Pair]) -> list[Words]:
        """The words of both sides."""
        return [(pair.source.split(), pair.target.split()) for pair in pairs]

    def ids(self, pairs: Sequence[Pair]) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of both sides, with <eos>."""
        sources = self.tokenizers.source.encode_batch([pair.source for pair in pairs])
        targets = self.tokenizers.target.encode_batch([pair.target for pair in pairs])
        return [[*ids, EOS] for ids in sources], [[*ids, EOS] for ids in targets]


def inputs_of(labels: list[list[int]]) -> PaddedTokens:
    """The decoder's inputs under teacher forcing: the labels, shifted by one position."""
    return PaddedTokens.from_lists([[BOS, *ids[:-1]] for ids in labels])


def make_model(text: AlignedText, hidden_size: int) -> Bahdanau:
    """A small RNNsearch for the vocabularies of a text."""
    return Bahdanau(
        BahdanauConfig(
            source_vocab_size=text.tokenizers.source.vocab_size,
            target_vocab_size=text.tokenizers.target.vocab_size,
            embedding_size=hidden_size // 2,
            hidden_size=hidden_size,
            alignment_size=hidden_size,
            maxout_size=hidden_size,
        )
    )


def train(model: Bahdanau, text: AlignedText, *, steps: int, batch: int) -> None:
    """Maximum likelihood of the translations; no alignment is used."""
    sources, targets = text.ids(text.train)

    def loss_of(step: int) -> Float[Tensor, ""]:
        rows = torch.randint(len(sources), (batch,)).tolist()
        labels = [targets[row] for row in rows]
        logits = model(PaddedTokens.from_lists([sources[row] for row in rows]), inputs_of(labels))
        return F.cross_entropy(logits.flatten(0, 1), PaddedTokens.from_lists(labels).ids.flatten(), ignore_index=PAD)

    fit(model, loss_of, steps=steps, learning_rate=8e-3)


def weights_on_test(model: Any, text: AlignedText) -> list[Float[Tensor, "T source"]]:
    """The weights of every test pair under teacher forcing, without <eos> on both sides."""
    sources, targets = text.ids(text.test)
    weights = forced_alignment(model, PaddedTokens.from_lists(sources), inputs_of(targets))
    assert weights is not None, "RNNsearch attends"
    return [matrix[:-1, :-1] for matrix in weights]


def accuracy(model: Bahdanau, text: AlignedText) -> float:
    """The share of the test's target words that are predicted from the correct words before them."""
    sources, targets = text.ids(text.test)
    labels = PaddedTokens.from_lists(targets)
    with torch.no_grad():
        predicted = model(PaddedTokens.from_lists(sources), inputs_of(targets)).argmax(dim=-1)
    return (predicted == labels.ids)[labels.mask].double().mean().item()


def best_possible(text: AlignedText) -> list[list[Link]]:
    """One link for every target word, correct wherever a correct one exists."""
    links = []
    for pair, gold in zip(text.test, text.gold, strict=True):
        of_target = {target: source for source, target in sorted(gold.sure, reverse=True)}
        links.append([(of_target.get(target, 0), target) for target in range(len(pair.target.split()))])
    return links


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """One text: the quality of each aligner, the accuracy of the translator, and an example for the figure."""

    qualities: dict[str, AlignmentQuality]
    accuracy: float
    example: Pair
    example_gold: Gold
    example_weights: Float[Tensor, "T source"]


def measure(
    seed: int, *, language: InventedLanguage, num_pairs: int, num_test: int, steps: int, batch: int, hidden_size: int
) -> Repetition:
    """Train all aligners on one text and compare them on its test."""
    text = AlignedText.draw(seed, language, num_pairs, num_test)
    words, test = text.words(text.train), text.words(text.test)
    aligners: dict[str, Any] = {
        DIAGONAL: DiagonalAligner(),
        IBM: IBMModel1.fit(words),
        FAST_ALIGN: FastAlign.fit(words),
    }
    with seeded(seed):
        model = make_model(text, hidden_size)
        untrained = [best_links(weights) for weights in weights_on_test(model, text)]
        train(model, text, steps=steps, batch=batch)
        weights = weights_on_test(model, text)
        share = accuracy(model, text)
    links = {
        ATTENTION: [best_links(matrix) for matrix in weights],
        UNTRAINED: untrained,
        **{name: [aligner.align(*pair) for pair in test] for name, aligner in aligners.items()},
        BEST: best_possible(text),
    }
    # a sentence that a figure can show
    shown = min(range(len(test)), key=lambda number: abs(len(test[number][1]) - 11))
    return Repetition(
        qualities={name: alignment_quality(own, text.gold) for name, own in links.items()},
        accuracy=share,
        example=text.test[shown],
        example_gold=text.gold[shown],
        example_weights=weights[shown],
    )


def run(
    *,
    seed: int = 0,
    repeats: int = 3,
    num_pairs: int = 2000,
    num_test: int = 200,
    steps: int = 600,
    batch: int = 16,
    hidden_size: int = 32,
    language: InventedLanguage = LANGUAGE,
) -> Finding:
    """Compare the aligners on `repeats` texts, each with a model of its own."""
    runs = [
        measure(
            1000 * seed + number,
            language=language,
            num_pairs=num_pairs,
            num_test=num_test,
            steps=steps,
            batch=batch,
            hidden_size=hidden_size,
        )
        for number in range(repeats)
    ]
    rates = {name: [run.qualities[name].error_rate for run in runs] for name in runs[0].qualities}
    rows: tuple[Row, ...] = tuple(
        {
            "aligner": name,
            "error rate": Measured.of(rates[name]),
            "precision": Measured.of(run.qualities[name].precision for run in runs),
            "recall": Measured.of(run.qualities[name].recall for run in runs),
        }
        for name in rates
    )
    holds, verdict = judge(rates, [run.accuracy for run in runs])
    draw = partial(draw_figure, rates=rates, example=runs[0])
    return Finding(name="alignment", claim=CLAIM, rows=rows, verdict=verdict, holds=holds, draw=draw)


def judge(rates: dict[str, list[float]], accuracies: list[float]) -> tuple[bool | None, Title]:
    """True if attention is clearly below both references and mostly right; None if it is below, but not clearly."""
    ours = Measured.of(rates[ATTENTION])
    is_clear = all_of(*(exceeds(rates[name], rates[ATTENTION], margin=0.0) for name in (UNTRAINED, DIAGONAL)))
    is_right = is_above([0.5] * len(rates[ATTENTION]), rates[ATTENTION])
    holds = all_of(is_clear, is_right)
    # the first part that does not hold
    reason = "has learned to align" if holds else "is not clearly better" if not is_clear else ERRORS[is_right]
    english = (
        f"The alignment error rate of the attention is {ours}, of the same model before training "
        f"{Measured.of(rates[UNTRAINED])}, of the fixed diagonal {Measured.of(rates[DIAGONAL])}: attention "
        f"{reason}. One link per target word cannot be below {Measured.of(rates[BEST])}. "
        f"The translator predicts {Measured.of(accuracies)} of the test's words. "
    )
    chinese = (
        f"注意力的对齐错误率为 {ours}，同一模型在训练前为 {Measured.of(rates[UNTRAINED])}，"
        f"固定对角线为 {Measured.of(rates[DIAGONAL])}："
        f"注意力{REASONS[reason]}。"
        f"每个目标词恰有一条链接时，错误率不会低于 {Measured.of(rates[BEST])}。"
        f"翻译模型正确预测的词占测试集的比例为 {Measured.of(accuracies)}。"
    )
    compared = [(name, compare(rates[ATTENTION], rates[name])) for name in (IBM, FAST_ALIGN)]
    english += "Beside aligners that learn from the same pairs, it is " + " and ".join(
        f"{relation.en} {name} ({Measured.of(rates[name])})" for name, relation in compared
    )
    chinese += "与用同样句对学习的对齐方法相比，它" + "，".join(
        relation.zh.format(f"{CHINESE.get(name, name)}（{Measured.of(rates[name])}）") for name, relation in compared
    )
    return holds, Title(en=english + ".", zh=chinese + "。")


def compare(ours: list[float], others: list[float]) -> Title:
    """How an error rate relates to another, text by text; the Chinese has a place for the other's name."""
    return {
        True: Title(en="better than", zh="优于 {}"),
        False: Title(en="worse than", zh="不如 {}"),
        None: Title(en="not clearly different from", zh="与 {}没有明显差别"),
    }[is_above(others, ours)]


def draw_figure(figure: Any, *, rates: dict[str, list[float]], example: Repetition) -> None:
    """Error rates as bars, and the weights of one sentence with the gold links as boxes."""
    left, right = panels(figure, CLAIM, 2)
    colours = {ATTENTION: BLUE, IBM: GREEN, FAST_ALIGN: PURPLE, DIAGONAL: ORANGE}
    for row, (name, values) in enumerate(rates.items()):
        value, colour = Measured.of(values), colours.get(name, GREY)
        left.barh(row, value.mean, xerr=value.spread, color=colour, height=0.6, capsize=3)
        left.text(value.mean + value.spread + 0.015, row, f"{value.mean:.2f}", va="center", fontsize=9, color=colour)
    left.set_yticks(range(len(rates)), [label(name) for name in rates])
    left.invert_yaxis()
    left.set_xlim(0, 1.1)
    style_axes(left, title="Alignment error rate (bars: spread)", x="alignment error rate", y="")
    right.imshow(example.example_weights.numpy(), cmap="Greys", vmin=0, vmax=1)
    for source, target in example.example_gold.sure:
        # a cell is one unit wide, around its index; the outline is a little smaller, so that neighbours stay apart
        left_side, right_side, top, bottom = source - 0.44, source + 0.44, target - 0.44, target + 0.44
        corners = ((left_side, top), (right_side, top), (right_side, bottom), (left_side, bottom), (left_side, top))
        right.plot(*zip(*corners, strict=True), color=ORANGE, linewidth=1.6)
    right.set_xticks(range(len(example.example.source.split())), example.example.source.split(), rotation=60)
    right.set_yticks(range(len(example.example.target.split())), example.example.target.split())
    right.tick_params(labelsize=8)
    style_axes(right, title="Weights for a test sentence (boxes: gold)", x="source", y="target")
