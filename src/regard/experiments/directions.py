"""Both directions: an encoder that reads from left to right only cannot know what follows.

The text: 一个 is "a" or "an" in English, which the word after it decides: 一个苹果 is an apple, 一个香蕉 a banana. A
bidirectional encoder has the words before and after every position.

Encoders of equal size label every word of generated sentences such as 他 吃 了 一个 苹果. The form of the verb (eat,
eats) needs a word to its left, the article one to its right, with up to `max_adjectives` between the noun and 一个, of
which the first decides: 一个 旧 香蕉 is an old banana. Refuted if a one-way encoder is better than guessing at the
article, or if the bidirectional one is not better than both one-way encoders.

Schuster and Paliwal 1997. https://doi.org/10.1109/78.650093
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import ComposableMask, causal
from regard.attention.positions import Sinusoidal
from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, exceeds, negated
from regard.experiments.lib.drawing import BLUE, GREY, ORANGE, label_point, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.lib.small_transformer import SmallBlock, seeded
from regard.experiments.lib.training import fit
from regard.layers import BidirectionalLSTM, Embedding, Readout
from regard.tasks import count_parameters

TITLE = Title(en="Both directions", zh="双向编码")
CLAIM = Title(
    en=(
        "A one-way encoder has only one side of the context: whether an article is a or an depends on the word after "
        "it, which only a bidirectional encoder has together with the words before."
    ),
    zh="单向编码器只有一侧的上下文：“一个”译成 a 还是 an 取决于后面的词，只有双向编码器同时看到前后两侧的词。",
)
FULL = {"seeds": 10, "steps": 1000, "max_adjectives": 6}
CHINESE = {
    "encoder": "编码器",
    "verb (needs the left)": "动词（需要左侧）",
    "article (needs the right)": "冠词（需要右侧）",
    "guessing": "猜测",
    "forward LSTM": "正向 LSTM",
    "backward LSTM": "反向 LSTM",
    "bidirectional LSTM": "双向 LSTM",
    "causal attention": "因果自注意力",
    "full attention": "完整自注意力",
    "Correct labels (bars: spread)": "标注正确的比例（误差棒：标准差）",
    "accuracy": "准确率",
}
SUBJECTS = {"我": 0, "你": 0, "他": 1, "她": 1}
"""1 if the verb takes an s."""
VERBS = ("吃", "看", "买", "要")
FIRST_SOUNDS = {
    # nouns: apple, egg, orange, umbrella, hour, island; banana, pear, book, university, house, peach
    "nouns": {"苹果": 1, "鸡蛋": 1, "橙子": 1, "雨伞": 1, "钟头": 1, "岛": 1}
    | {"香蕉": 0, "梨": 0, "书": 0, "大学": 0, "房子": 0, "桃子": 0},
    # old, interesting, expensive; red, big, good
    "adjectives": {"旧": 1, "有趣": 1, "贵": 1, "红": 0, "大": 0, "好": 0},
}
"""1 if the English word takes an."""
PAST, ARTICLE, STOP = "了", "一个", "。"
WORDS = (STOP, PAST, ARTICLE, *SUBJECTS, *VERBS, *FIRST_SOUNDS["nouns"], *FIRST_SOUNDS["adjectives"])
VERB_POSITION, ARTICLE_POSITION = 1, 3
LEFT, RIGHT = "verb (needs the left)", "article (needs the right)"
MARGIN = 0.05
"""A difference of accuracies that matters."""


@dataclass(frozen=True, kw_only=True)
class LabelledSentences:
    """Word ids, and the labels of verb and article."""

    ids: Int[Tensor, "B L"]
    verbs: Int[Tensor, " B"]
    articles: Int[Tensor, " B"]


def ids_of(words: Mapping[str, int] | Sequence[str]) -> Int[Tensor, " words"]:
    return torch.tensor([WORDS.index(word) for word in words])


def choose(words: Mapping[str, int], *shape: int) -> tuple[Tensor, Tensor]:
    """Ids of random words, and the classes of these words."""
    index = torch.randint(len(words), shape)
    return ids_of(words)[index], torch.tensor(list(words.values()))[index]


def draw(count: int, max_adjectives: int) -> LabelledSentences:
    """Subject, verb, 了, 一个, adjectives, noun, and full stops up to one length."""
    subjects, takes_s = choose(SUBJECTS, count)
    verbs = ids_of(VERBS)[torch.randint(len(VERBS), (count,))]
    nouns, noun_sounds = choose(FIRST_SOUNDS["nouns"], count, 1)
    adjectives, adjective_sounds = choose(FIRST_SOUNDS["adjectives"], count, max_adjectives)
    numbers = torch.randint(max_adjectives + 1, (count, 1))
    positions = torch.arange(max_adjectives + 1)
    # adjectives up to their number, then the noun, then full stops
    phrases = torch.cat([adjectives, nouns], dim=1)
    phrases = torch.where(positions < numbers, phrases, torch.where(positions == numbers, nouns, WORDS.index(STOP)))
    # the first word after the article decides
    sounds = torch.where(numbers > 0, torch.cat([adjective_sounds, noun_sounds], dim=1)[:, :1], noun_sounds)
    past, article = (torch.full((count,), WORDS.index(word)) for word in (PAST, ARTICLE))
    ids = torch.cat([torch.stack([subjects, verbs, past, article], dim=1), phrases], dim=1)
    return LabelledSentences(ids=ids, verbs=takes_s, articles=sounds[:, 0])


class ForwardLSTM(nn.Module):
    """An LSTM from left to right."""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, size, batch_first=True)

    def forward(self, words: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        states: Tensor = self.lstm(words)[0]
        return states


class BackwardLSTM(ForwardLSTM):
    """An LSTM from right to left."""

    def forward(self, words: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        # sentences have one length, so that no padding is reversed
        return super().forward(words.flip(1)).flip(1)


class BothLSTM(nn.Module):
    """[forward; backward], projected to one size."""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.lstm = BidirectionalLSTM(input_size=size, hidden_size=size)
        self.proj = nn.Linear(2 * size, size)

    def forward(self, words: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        lengths = torch.full((words.shape[0],), words.shape[1])
        states: Tensor = self.proj(self.lstm(words, lengths))
        return states


class SelfAttentionEncoder(nn.Module):
    """Positions and one block of self-attention under a mask."""

    def __init__(self, mask: ComposableMask | None, *, size: int) -> None:
        super().__init__()
        self.positions, self.block, self.mask = Sinusoidal(hidden_size=size), SmallBlock(size=size, num_heads=1), mask

    def forward(self, words: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        states: Tensor = self.block(self.positions(words), self.mask)
        return states


ENCODERS: Mapping[str, Callable[..., nn.Module]] = {
    "forward LSTM": ForwardLSTM,
    "backward LSTM": BackwardLSTM,
    "bidirectional LSTM": BothLSTM,
    "causal attention": partial(SelfAttentionEncoder, causal()),
    "full attention": partial(SelfAttentionEncoder, None),
}
FORWARD, BACKWARD, BOTH, CAUSAL, FULL_ATTENTION = ENCODERS


class Labeller(nn.Module):
    """Embedding, encoder, and two classes for verbs and two for articles."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size=len(WORDS), hidden_size=size)
        self.encoder = ENCODERS[name](size=size)
        self.readout = Readout(hidden_size=size, vocab_size=4)

    def forward(self, ids: Int[Tensor, "B L"]) -> tuple[Float[Tensor, "B 2"], Float[Tensor, "B 2"]]:
        """Logits of the verb's form and of the article."""
        logits = self.readout(self.encoder(self.embedding(ids)))
        return logits[:, VERB_POSITION, :2], logits[:, ARTICLE_POSITION, 2:]


def loss_of(model: Labeller, sentences: LabelledSentences) -> Float[Tensor, ""]:
    """Nats of both labels."""
    verbs, articles = model(sentences.ids)
    return F.cross_entropy(verbs, sentences.verbs) + F.cross_entropy(articles, sentences.articles)


Accuracies = Mapping[str, Mapping[str, Sequence[float]]]
"""By label and encoder: the accuracy from each seed."""


def train_and_evaluate(seed: int, name: str, size: int, *, steps: int, max_adjectives: int) -> list[float]:
    """The accuracies of verbs and articles on new sentences."""
    with seeded(seed):
        model = Labeller(name, size)
        fit(model, lambda step: loss_of(model, draw(64, max_adjectives)), steps=steps)
        sentences = draw(1000, max_adjectives)
        with torch.no_grad():
            verbs, articles = (logits.argmax(dim=-1) for logits in model(sentences.ids))
    pairs = ((verbs, sentences.verbs), (articles, sentences.articles))
    return [(predicted == labels).double().mean().item() for predicted, labels in pairs]


def run(*, seed: int = 0, seeds: int = 3, steps: int = 200, size: int = 24, max_adjectives: int = 2) -> Finding:
    """Train every encoder from `seeds` seeds."""
    sizes = equal_sizes(Labeller, list(ENCODERS), reference=BOTH, size=size)
    pairs = {
        name: [
            train_and_evaluate(1000 * seed + index, name, own, steps=steps, max_adjectives=max_adjectives)
            for index in range(seeds)
        ]
        for name, own in sizes.items()
    }
    accuracies = {
        key: {name: [pair[i] for pair in by] for name, by in pairs.items()} for i, key in enumerate((LEFT, RIGHT))
    }
    rows: list[Row] = [
        {
            "encoder": name,
            "parameters": count_parameters(Labeller(name, sizes[name])),
            **{key: Measured.of(accuracies[key][name]) for key in (LEFT, RIGHT)},
        }
        for name in ENCODERS
    ]
    with seeded(seed):
        guesses = guessing(draw(10_000, max_adjectives))
    holds, verdict = judge(accuracies, guesses)
    return Finding(
        name="directions",
        claim=CLAIM,
        rows=(*rows, {"encoder": "guessing", "parameters": "", **guesses}),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, accuracies=accuracies, guesses=guesses),
    )


def guessing(sentences: LabelledSentences) -> dict[str, float]:
    """The accuracy of the more frequent class, without any context."""
    shares = [labels.double().mean().item() for labels in (sentences.verbs, sentences.articles)]
    return {key: max(share, 1 - share) for key, share in zip((LEFT, RIGHT), shares, strict=True)}


def judge(accuracies: Accuracies, guesses: Mapping[str, float]) -> tuple[bool | None, Title]:
    """Blind: not above guessing. Both kinds of encoder, recurrent and attention, have to agree."""
    right, left = accuracies[RIGHT], accuracies[LEFT]

    def sees(values: Sequence[float], key: str) -> bool | None:
        return exceeds(values, [guesses[key]] * len(values), margin=MARGIN)

    blind = all_of(negated(sees(right[FORWARD], RIGHT)), negated(sees(right[CAUSAL], RIGHT)))
    mirrored = negated(sees(left[BACKWARD], LEFT))
    better = all_of(
        exceeds(right[BOTH], right[FORWARD], margin=MARGIN),
        exceeds(left[BOTH], left[BACKWARD], margin=MARGIN),
        exceeds(right[FULL_ATTENTION], right[CAUSAL], margin=MARGIN),
    )
    measured = {name: f"{Measured.of(right[name])}" for name in ENCODERS}
    skill = {
        True: "are not better than guessing",
        False: "are better than guessing",
        None: "may be better than guessing",
    }
    gain = {True: "are better", False: "are not better", None: "are better, but within the spread,"}
    hidden = {True: "is hidden from", False: "is not hidden from", None: "may be hidden from"}
    english = (
        "a or an: " + ", ".join(f"{name} {value}" for name, value in measured.items()) + f", guessing "
        f"{guesses[RIGHT]:.2f}. Encoders from left to right {skill[blind]}. The verb's form, which needs the left, "
        f"{hidden[mirrored]} the backward LSTM ({Measured.of(left[BACKWARD])}). Encoders with both sides "
        f"{gain[better]} at what one side lacks."
    )
    skill = {True: "不优于猜测", False: "优于猜测", None: "可能优于猜测"}
    gain = {True: "更好", False: "并不更好", None: "更好，但差异在误差范围内"}
    hidden = {True: "无从得知", False: "可以得知", None: "或许无从得知"}
    chinese = (
        "判断 a 还是 an 的准确率："
        + "，".join(f"{CHINESE[name]} {value}" for name, value in measured.items())
        + f"，猜测 {guesses[RIGHT]:.2f}。从左到右的编码器{skill[blind]}。"
        f"动词形式取决于左侧，反向 LSTM {hidden[mirrored]}（{Measured.of(left[BACKWARD])}）。"
        f"对于缺少一侧就无法得知的标注，拥有两侧的编码器{gain[better]}。"
    )
    return all_of(blind, mirrored, better), Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, accuracies: Accuracies, guesses: Mapping[str, float]) -> None:
    """Pairs of bars: what needs the left and what needs the right, by encoder."""
    (axes,) = panels(figure, CLAIM, 1)
    positions = range(len(ENCODERS))
    for key, colour, offset in ((LEFT, ORANGE, -0.2), (RIGHT, BLUE, 0.2)):
        values = [Measured.of(accuracies[key][name]) for name in ENCODERS]
        axes.bar(
            [position + offset for position in positions],
            [value.mean for value in values],
            0.36,
            yerr=[value.spread for value in values],
            color=colour,
            capsize=3,
            label=label(key),
        )
    axes.axhline(statistics.fmean(guesses.values()), color=GREY, linestyle=":")
    label_point(axes, len(ENCODERS) - 0.5, statistics.fmean(guesses.values()), "guessing", GREY, side="right")
    axes.set_xticks(positions, [label(name) for name in ENCODERS])
    axes.set_ylim(0, 1.18)
    axes.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="upper left", ncols=2)
    style_axes(axes, title="Correct labels (bars: spread)", x="", y="accuracy")
