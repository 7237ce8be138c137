"""N-gram tables: how they grow with n, and what a network of equal size predicts.

    possible n-grams V^n,   stored n-grams: those that occur in the text, at most one per word of it

The claim of a text on the history of attention: the size of an n-gram model is almost exponential in n, so that there
are too many combinations to store, and a network is used instead. Orders 1 to 6 of the interpolated Kneser-Ney model
are counted on parts of one text; beside them an MLP, an LSTM and a GPT are trained whose parameters are as many as the
numbers in the tables of one order. Every seed draws four in five lines of the text, the same for all. Refuted if the
tables of an order are less than twice those of the order before, or if no network has a clearly lower perplexity.
Kneser and Ney 1995. https://doi.org/10.1109/ICASSP.1995.479394
Bengio et al. 2003. https://jmlr.org/papers/v3/bengio03a.html
"""

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from regard.contracts import Title
from regard.data.corpora import TextCorpus, TopicsCorpus
from regard.data.text import Stream
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, is_above
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, label_point, line, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.language import SEGMENT, fit_stream, set_frequencies, word_streams
from regard.experiments.lib.sizes import num_parameters
from regard.experiments.lib.small_transformer import seeded
from regard.models.language_modeling import LANGUAGE_MODELS, NGram, NGramConfig
from regard.tasks import count_parameters, equal_size
from regard.tasks.language_modeling import likelihood
from regard.training import CropObjective, StreamObjective

TITLE = Title(en="Tables of n-grams", zh="n-gram 表")
CLAIM = Title(
    en="The size of an n-gram model grows almost exponentially with n; a network of equal size predicts better.",
    zh="n-gram 模型的大小几乎随 n 指数增长；同样大小的神经网络预测得更好。",
)
CHINESE = {
    "n-grams of order n": "n 阶 n-gram 的个数",
    "numbers": "存储的数值个数",
    "{}-gram": "{}-gram",
    "possible: V to the n": "可能的个数：V 的 n 次方",
    "a quarter": "四分之一",
    "a half": "一半",
    "the text": "全部",
    "n-gram": "n-gram",
    "n-grams that occur, by share of the text": "出现过的 n-gram 数，按所用文本的比例",
    "Perplexity by size (bars: spread)": "困惑度随大小的变化（误差棒：标准差）",
    "n": "n",
    "different n-grams": "不同的 n-gram 数",
    "numbers stored": "存储的数值个数",
    "perplexity per word": "每词困惑度",
}
NETWORKS = {"mlp": 1e-2, "lstm": 1e-2, "gpt": 1e-3}
"""Learning rates, chosen on the validation text."""

NAMES = {"mlp": "MLP", "lstm": "LSTM", "gpt": "GPT"}

SHARES = {"a quarter": 0.25, "a half": 0.5, "the text": 1.0}
KEPT = 0.8
"""The share of the lines that a seed draws."""

DOUBLING = 2.0
"""The least factor between orders that is called exponential."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """The numbers in a model, and its perplexity on the test and on the validation text."""

    numbers: int
    perplexity: float
    validation: float

    @classmethod
    def of(cls, model: Any, numbers: int, streams: Sequence[Stream]) -> "Predicted":
        """On both streams."""
        test, validation = (likelihood(model, stream).perplexity for stream in streams)
        return cls(numbers=numbers, perplexity=test, validation=validation)


@dataclass(frozen=True, kw_only=True)
class TableRun:
    """One seed: n-grams by order and by share of the text, and the models by order or name."""

    entries: Mapping[str, Sequence[int]]
    ngrams: Sequence[Predicted]
    networks: Mapping[str, Predicted]

    @property
    def factors(self) -> list[float]:
        """How many times as many n-grams an order has as the one before."""
        return [after / before for before, after in pairwise(self.entries["the text"])]


def count_ngrams(ids: torch.Tensor, order: int, vocab_size: int) -> NGram:
    """The model of an order."""
    return NGram.count(ids, NGramConfig(vocab_size=vocab_size, order=order))


def numbers_in(model: NGram) -> int:
    """Keys, probabilities and weights of all tables."""
    return sum(table.numel() for table in model.buffers())


def build_network(name: str, vocab_size: int, size: int) -> Any:
    """A network of one layer; embeddings and hidden units have the same size."""
    entry = LANGUAGE_MODELS[name]
    own: dict[str, Any] = {"embedding_size": size, "order": 5} if name == "mlp" else {"num_layers": 1}
    if name == "lstm":
        own |= {"embedding_size": size, "forget_bias": 1.0}
    elif name == "gpt":
        own |= {"num_heads": 1, "feed_forward_size": 4 * size, "context": SEGMENT}
    return entry.build(entry.config(vocab_size=vocab_size, hidden_size=size, dropout=0.2, **own))


def measure(
    seed: int,
    texts: Mapping[str, str],
    *,
    orders: int,
    equal_order: int,
    vocab_size: int,
    epochs: int,
) -> TableRun:
    """Count and train on a random part of the lines, then predict the other texts."""
    chosen = random.Random(seed)
    text = "".join(line for line in texts["train"].splitlines(keepends=True) if chosen.random() < KEPT)
    training, others, vocab_size = word_streams(text, [texts["test"], texts["validation"]], vocab_size=vocab_size)
    ids = torch.from_numpy(training.ids).long()
    entries = {
        name: count_ngrams(ids[: int(share * len(ids))], orders, vocab_size).config.entries
        for name, share in SHARES.items()
    }
    models = [count_ngrams(ids, order, vocab_size) for order in range(1, orders + 1)]
    goal = numbers_in(models[equal_order - 1])
    return TableRun(
        entries=entries,
        ngrams=[Predicted.of(model, numbers_in(model), others) for model in models],
        networks={
            name: train_network(seed, name, goal, training, others, vocab_size=vocab_size, epochs=epochs)
            for name in NETWORKS
        },
    )


def train_network(
    seed: int, name: str, goal: int, training: Stream, others: Sequence[Stream], *, vocab_size: int, epochs: int
) -> Predicted:
    """A network with about as many parameters as the goal."""
    size = equal_size(goal, partial(num_parameters, build_network, name, vocab_size), max_size=512)
    with seeded(seed):
        model = build_network(name, vocab_size, size)
        set_frequencies(model, training, vocab_size)
        # the cache of a GPT grows, so its segments begin without a state
        objective = CropObjective if name == "gpt" else StreamObjective
        fit_stream(model, training, epochs=epochs, learning_rate=NETWORKS[name], objective_class=objective)
        return Predicted.of(model, count_parameters(model), others)


def run(
    *,
    seed: int = 0,
    repeats: int = 3,
    orders: int = 6,
    equal_order: int = 4,
    vocab_size: int = 2000,
    epochs: int = 5,
    characters: int = 1_000_000,
    corpus: TextCorpus | None = None,
) -> Finding:
    """Count and train on `repeats` random parts of a text; networks are as large as the tables of `equal_order`."""
    source = corpus or TopicsCorpus()
    texts = {split: source.read(split)[:characters] for split in ("train", "test", "validation")}
    sizes = {"orders": orders, "equal_order": equal_order, "vocab_size": vocab_size, "epochs": epochs}
    runs = [measure(1000 * seed + index, texts, **sizes) for index in range(repeats)]
    holds, verdict = judge(runs, equal_order)
    return Finding(
        name="ngram_tables",
        claim=CLAIM,
        rows=tuple(rows_of(runs)),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, runs=runs, vocab_size=vocab_size),
    )


def rows_of(runs: Sequence[TableRun]) -> list[Row]:
    """A row for every order and for every network."""
    rows: list[Row] = []
    for index in range(len(runs[0].ngrams)):
        models = [run.ngrams[index] for run in runs]
        entries = Measured.of(run.entries["the text"][index] for run in runs)
        rows.append({"model": f"{index + 1}-gram", "n-grams of order n": entries, **row_of(models)})
    for name in NETWORKS:
        models = [run.networks[name] for run in runs]
        rows.append({"model": NAMES[name], "n-grams of order n": "", **row_of(models)})
    return rows


def row_of(models: Sequence[Predicted]) -> Row:
    """Size and perplexity over the seeds."""
    return {
        "numbers": Measured.of(one.numbers for one in models),
        "perplexity": Measured.of(one.perplexity for one in models),
    }


def judge(runs: Sequence[TableRun], equal_order: int) -> tuple[bool | None, Title]:
    """Every order at least doubles the table, and the best network is clearly better than tables of its size."""
    factors = list(zip(*(run.factors for run in runs), strict=True))
    doubles = [is_above(values, [DOUBLING] * len(runs)) for values in factors]
    tables = [run.ngrams[equal_order - 1].perplexity for run in runs]
    networks = {name: [run.networks[name].perplexity for run in runs] for name in NETWORKS}
    # chosen on the validation text, by the mean over the seeds, so that it is one network
    best = min(NETWORKS, key=lambda name: statistics.fmean(run.networks[name].validation for run in runs))
    is_better = is_above(tables, networks[best])
    largest = [run.ngrams[-1].perplexity for run in runs]
    means = [digits(Measured.of(values).mean) for values in factors]
    measured = [f"{NAMES[name]} {Measured.of(values)}" for name, values in networks.items()]
    orders, grows = len(runs[0].ngrams), all_of(*doubles)
    words = {
        True: "almost exponential growth",
        False: "no exponential growth, since the words of a text are limited",
        None: "the growth is not clear",
    }
    english = (
        f"From order to order the n-grams in the text multiply by {', '.join(means)}: {words[grows]}. Perplexity: "
        f"{equal_order}-gram {Measured.of(tables)}, {orders}-gram {Measured.of(largest)}; networks as large as the "
        f"{equal_order}-gram tables: {', '.join(measured)}. The best network by validation, "
        f"{NAMES[best]}, is "
    )
    words = {True: "clearly better", False: "clearly worse", None: "not clearly different"}
    english += f"{words[is_better]}."
    words = {True: "几乎是指数增长", False: "不是指数增长，因为文本的词数有限", None: "是否指数增长尚不明确"}
    chinese = (
        f"阶数每增加一，文本中的 n-gram 数依次变为原来的 {'、'.join(means)} 倍：{words[grows]}。困惑度："
        f"{equal_order}-gram {Measured.of(tables)}，{orders}-gram {Measured.of(largest)}；"
        f"与 {equal_order}-gram 表同样大小的网络：{'，'.join(measured)}。在验证集上最好的网络是 {NAMES[best]}，"
        "与同样大小的 n-gram 表相比"
    )
    words = {True: "明显更好", False: "明显更差", None: "没有明显差别"}
    return all_of(grows, is_better), Title(en=english, zh=f"{chinese}{words[is_better]}。")


def draw_figure(figure: Any, *, runs: Sequence[TableRun], vocab_size: int) -> None:
    """N-grams by order for parts of the text, and perplexity by size."""
    left, right = panels(figure, CLAIM, 2)
    orders = range(1, len(runs[0].ngrams) + 1)
    for name, colour in zip(SHARES, (ORANGE, GREEN, BLUE), strict=True):
        values = [Measured.of(run.entries[name][order - 1] for run in runs) for order in orders]
        line(left, list(orders), values, colour)
        label_point(left, orders[-1], values[-1].mean, name, colour)
    # the first three powers, beyond which the others could not be seen
    left.plot(orders[:3], [float(vocab_size) ** order for order in orders[:3]], ":", color=GREY)
    label_point(left, 2, float(vocab_size) ** 2, "possible: V to the n", GREY)
    left.set_yscale("log")
    left.set_xticks(list(orders))
    left.set_xlim(0.7, len(orders) + 1.5)
    tables = [[run.ngrams[order - 1] for run in runs] for order in orders]
    right.errorbar(
        [Measured.of(one.numbers for one in models).mean for models in tables],
        [Measured.of(one.perplexity for one in models).mean for models in tables],
        [Measured.of(one.perplexity for one in models).spread for models in tables],
        color=BLUE,
        marker="o",
        capsize=3,
    )
    for order, models in zip(orders, tables, strict=True):
        x, y = (Measured.of(getattr(one, kind) for one in models).mean for kind in ("numbers", "perplexity"))
        label_point(right, x, y, f"{order}", BLUE, side="above")
    for name, colour in zip(NETWORKS, (ORANGE, PURPLE, GREEN), strict=True):
        numbers, perplexity = (
            Measured.of(getattr(run.networks[name], kind) for run in runs) for kind in ("numbers", "perplexity")
        )
        line(right, [round(numbers.mean)], [perplexity], colour)
        right.plot([], [], "o", color=colour, label=label(NAMES[name]))
    right.plot([], [], "o-", color=BLUE, label=label("n-gram"))
    right.legend(frameon=False, fontsize=9, labelcolor="linecolor")
    right.set_xscale("log")
    style_axes(left, title="n-grams that occur, by share of the text", x="n", y="different n-grams")
    style_axes(right, title="Perplexity by size (bars: spread)", x="numbers stored", y="perplexity per word")
