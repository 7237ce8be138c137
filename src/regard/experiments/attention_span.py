"""Short attention spans: does a language model that may attend to 15 words use them, and does attention help at all?

Daniluk, Rocktaeschel, Welbl and Riedel 2017. https://arxiv.org/abs/1702.04521
An LSTM, three forms of attention over its last 15 outputs, and the 4-gram RNN, which concatenates parts of the last
three outputs: all with the same number of parameters, trained the same way on the same text, from the same seeds.

    python -m regard experiment attention_span     Python's own documentation, small models
    finding_of(runs)                               the same verdict from recorded runs, such as those on Penn Treebank
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from regard.contracts import Title
from regard.data.corpora import TextCorpus, TopicsCorpus
from regard.data.text import Stream
from regard.experiments.lib.chinese import label
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, label_point, line, panels, style_axes
from regard.experiments.lib.finding import Cell, Finding, Measured, Row, clearly_above
from regard.experiments.lib.language import fit_stream, set_frequencies, word_streams
from regard.experiments.lib.sizes import num_parameters
from regard.experiments.lib.small_transformer import seeded
from regard.metrics import SPANS
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.tasks import count_parameters, equal_size, report_of
from regard.tasks.language_modeling import likelihood, spans

TITLE = Title(en="Attention span", zh="注意力的跨度")
CLAIM = Title(
    en=(
        "A language model that may attend to its last 15 words mainly uses five; separate keys, values and "
        "predictions help, but a 4-gram RNN without attention is on par."
    ),
    zh=(
        "可以关注最近 15 个词的语言模型主要只用最近 5 个；键、值、预测分开有帮助，但没有注意力的 4-gram RNN 与之相当。"
    ),
)
WINDOW, SHORT = 15, 5
ATTENDING = ("attention", "key_value", "key_value_predict")
SYSTEMS = ("lstm", *ATTENDING, "ngram_rnn")
"""All but the last in the paper's order, from the worst perplexity to the best."""

BETTER, WORSE, ON_PAR = "clearly better than", "clearly worse than", "on par with"
MIN_SEEDS = 2
"""Seeds below which there is no spread."""


@dataclass(frozen=True, kw_only=True)
class SpanResult:
    """The result of one training: perplexity per word, and the share of the weight within each of SPANS."""

    parameters: int
    perplexity: float
    within: tuple[float, ...] = ()

    @property
    def short(self) -> float:
        """The share of the weight on the last five words."""
        return self.within[SPANS.index(SHORT)]


Results = Mapping[str, Sequence[SpanResult]]


@dataclass(frozen=True, kw_only=True)
class SpanTraining:
    """Data, epochs and model size; every model has about the parameters of a Key-Value-Predict of `hidden_size`."""

    training: Stream
    test: Stream
    vocab_size: int
    hidden_size: int
    epochs: int

    @classmethod
    def of(
        cls, corpus: TextCorpus, *, vocab_size: int, hidden_size: int, epochs: int, characters: int
    ) -> "SpanTraining":
        """On the first `characters` of both texts, tokenised into words."""
        texts = [corpus.read(split)[:characters] for split in ("train", "test")]
        training, (test,), vocab_size = word_streams(texts[0], texts[1:], vocab_size=vocab_size)
        sizes = {"vocab_size": vocab_size, "hidden_size": hidden_size, "epochs": epochs}
        return cls(training=training, test=test, **sizes)

    def build(self, name: str, hidden_size: int) -> Any:
        """A system of one layer; the forget gates of an LSTM start open."""
        entry = LANGUAGE_MODELS[name]
        # each form of model takes settings that the others do not have
        own: dict[str, Any] = {"window": WINDOW}
        if name not in ATTENDING:
            own = {"forget_bias": 1.0} if name == "lstm" else {"order": 4}
        return entry.build(
            entry.config(
                vocab_size=self.vocab_size,
                # words keep the size of the reference: only the hidden size makes the numbers of parameters equal
                embedding_size=self.hidden_size,
                hidden_size=hidden_size,
                num_layers=1,
                dropout=0.3,
                **own,
            )
        )

    def equal_size(self, name: str) -> int:
        """The hidden size at which a system has about the parameters of the reference system."""
        # at one hidden size the other systems have fewer parameters than the reference, so they get a larger one
        goal = num_parameters(self.build, ATTENDING[-1], self.hidden_size)
        return equal_size(goal, partial(num_parameters, self.build, name), max_size=4 * self.hidden_size)

    def set_frequencies(self, model: Any) -> None:
        """Initialise the readout with the frequencies of the words."""
        set_frequencies(model, self.training, self.vocab_size)

    def fit(self, model: Any) -> None:
        """Train over the text in order, carrying the state."""
        fit_stream(model, self.training, epochs=self.epochs)

    def result(self, seed: int, name: str, hidden_size: int) -> SpanResult:
        """Train from a seed, then evaluate on the test text, carrying the state through all of it."""
        # initial weights and dropout depend on the seed alone
        with seeded(seed):
            model = self.build(name, hidden_size)
            self.set_frequencies(model)
            self.fit(model)
            # inside the block too, so that it runs on one thread as the training does
            perplexity = likelihood(model, self.test).perplexity
            masses = spans(model, self.test) if LANGUAGE_MODELS[name].attends else {}
        # a model has one attention, so the first entry is the only one
        within = next((mass.within for mass in masses.values()), ())
        return SpanResult(parameters=count_parameters(model), perplexity=perplexity, within=within)


def run(
    *,
    seed: int = 0,
    seeds: int = 3,
    epochs: int = 4,
    hidden_size: int = 32,
    vocab_size: int = 2000,
    characters: int = 1_000_000,
    corpus: TextCorpus | None = None,
) -> Finding:
    """Train every system from `seeds` seeds on the first `characters` of a text."""
    training = SpanTraining.of(
        corpus or TopicsCorpus(),
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        epochs=epochs,
        characters=characters,
    )
    sizes = {name: training.equal_size(name) for name in SYSTEMS}
    return make_finding(
        # seeds of different runs do not overlap while there are fewer than 1000 repeats
        {
            name: [training.result(1000 * seed + index, name, size) for index in range(seeds)]
            for name, size in sizes.items()
        }
    )


def finding_of(runs: Mapping[str, Any], *, prefix: str = "equal_", split: str = "test") -> Finding:
    """The finding of recorded runs `<prefix><system>-<seed>`, each with a language report of the split."""
    seeds = common_seeds(runs, prefix=prefix, split=split)
    if len(seeds) < MIN_SEEDS:
        raise ValueError(
            f"{len(seeds)} seeds have a run of each of {', '.join(prefix + name for name in SYSTEMS)}. "
            f"Record {MIN_SEEDS} or more."
        )
    return make_finding(
        {name: [result_of(runs[f"{prefix}{name}-{seed}"][split]) for seed in seeds] for name in SYSTEMS}
    )


def common_seeds(runs: Mapping[str, Any], *, prefix: str = "equal_", split: str = "test") -> list[str]:
    """The seeds for which every system has a run."""
    seeds = [
        # the seed follows the last hyphen; names of systems have none
        {key.rpartition("-")[2] for key in runs if key.rpartition("-")[0] == prefix + name and split in runs[key]}
        for name in SYSTEMS
    ]
    # every system must have a seed, because the comparisons are paired
    return sorted(set.intersection(*seeds))


def result_of(record: Mapping[str, Any]) -> SpanResult:
    """From the report of a language model as JSON."""
    report = report_of(record)
    perplexity, distances = report.metric("perplexity"), report.table("attention_distance")
    assert perplexity is not None
    # the first cell is the name of the module
    shares = distances.rows[0][1 : 1 + len(SPANS)] if distances else ()
    # cells may also be text, which has no value for a curve
    within = tuple(share for share in shares if isinstance(share, float))
    return SpanResult(parameters=report.info.parameters, perplexity=perplexity.value, within=within)


def make_finding(results: Results) -> Finding:
    holds, verdict = judge(results)
    return Finding(
        name="attention_span",
        claim=CLAIM,
        rows=tuple(rows_of(results)),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, results=results),
    )


def rows_of(results: Results) -> list[Row]:
    """A row per system, and one for uniform weights."""
    rows: list[Row] = []
    for name, runs in results.items():
        # a system without attention has empty cells in these columns
        shares: Sequence[Cell] = shares_of(runs) or [""] * len(SPANS)
        rows.append(
            {
                "system": title(name),
                "parameters": runs[0].parameters,
                "perplexity": Measured.of(run.perplexity for run in runs),
                **{f"last {span}": share for span, share in zip(SPANS, shares, strict=True)},
            }
        )
    even = {f"last {span}": span / WINDOW for span in SPANS}
    return [*rows, {"system": "uniform weights", "parameters": "", "perplexity": "", **even}]


def shares_of(runs: Sequence[SpanResult]) -> list[Measured]:
    """The share of the weight within each span; empty for a system without attention."""
    # the last share is 1 up to rounding, whose spread is not shown
    columns = zip(*(run.within for run in runs), strict=True)
    return [Measured.of(round(share, 6) for share in shares) for shares in columns]


def title(name: str) -> str:
    return "4-gram RNN" if name == "ngram_rnn" else LANGUAGE_MODELS[name].title


def judge(results: Results) -> tuple[bool, Title]:
    """Short: most of the weight, and clearly more than with uniform weights. Order, par: by the spread over seeds."""
    perplexities = {name: [run.perplexity for run in runs] for name, runs in results.items()}
    shares = {name: [run.short for run in results[name]] for name in ATTENDING}
    even = SHORT / WINDOW
    # every seed above a half, and the mean clearly above uniform weights
    short = all(min(values) > 0.5 and clearly_above(values, [even] * len(values)) for values in shares.values())
    ranks = {
        name: Rank(name, compare(perplexities[name], perplexities[other]), other)
        # each form is compared with the one before it, and the 4-gram RNN with the last one
        for other, name in (*pairwise(SYSTEMS[:-1]), SYSTEMS[-2:])
    }
    broken = [ranks[name] for name in ATTENDING if ranks[name].comparison != BETTER]
    simple = ranks[SYSTEMS[-1]]
    short_shares = [f"{title(name)} {Measured.of(values).mean:.0%}" for name, values in shares.items()]
    measured = [f"{title(name)} {Measured.of(perplexities[name])}" for name in SYSTEMS]
    english = (
        f"Of the weight on {WINDOW} words the last {SHORT} have {', '.join(short_shares)} (uniform weights, "
        f"{even:.0%}): {'attention mainly uses them' if short else 'attention does not mainly use them'}. "
        f"Perplexity: {', '.join(measured)}. "
    )
    order = "Each form of attention is clearly better than the one before it."
    english += "; ".join(map(str, broken)) + "." if broken else order
    english += f" The {simple}."
    chinese = (
        f"{WINDOW} 个词的权重中，最近 {SHORT} 个词占 {'，'.join(short_shares)}（均匀权重为 {even:.0%}）："
        f"注意力{'主要' if short else '并不主要'}使用它们。困惑度：{'，'.join(measured)}。"
    )
    chinese += "；".join(rank.chinese for rank in broken) if broken else "每一种注意力都明显优于前一种"
    # on par satisfies the claim, worse does not
    return short and not broken and simple.comparison != WORSE, Title(en=english, zh=f"{chinese}。{simple.chinese}。")


@dataclass(frozen=True)
class Rank:
    """How the perplexity of a system compares with that of another."""

    name: str
    comparison: str
    other: str

    def __str__(self) -> str:
        return f"{title(self.name)} is {self.comparison} {title(self.other)}"

    @property
    def chinese(self) -> str:
        """The same in Chinese."""
        pair = {BETTER: "{}明显优于 {}", WORSE: "{}明显差于 {}", ON_PAR: "{}与 {} 相当"}[self.comparison]
        return pair.format(f"{title(self.name)} ", title(self.other))


def compare(own: Sequence[float], other: Sequence[float]) -> str:
    """How perplexities compare with others of the same seeds, in words."""
    return BETTER if clearly_above(other, own) else WORSE if clearly_above(own, other) else ON_PAR


def draw_figure(figure: Any, *, results: Results) -> None:
    """The share of the weight by span, and the perplexity of each system."""
    left, right = panels(figure, CLAIM, 2)
    colours = dict(zip(ATTENDING, (BLUE, ORANGE, GREEN), strict=True))
    for name, colour in colours.items():
        line(left, SPANS, shares_of(results[name]), colour)
        # an empty line gives the legend an entry without error bars
        left.plot([], [], color=colour, label=label(title(name)))
    left.plot(SPANS, [span / WINDOW for span in SPANS], color=GREY, linestyle=":", label=label("uniform weights"))
    left.axvline(SHORT, color=GREY, linewidth=0.7, zorder=0)
    left.set_ylim(0, 1.05)
    left.set_xticks(SPANS)
    # the curves are too close to label them directly
    left.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="lower right")
    for position, name in enumerate(SYSTEMS):
        perplexity = Measured.of(run.perplexity for run in results[name])
        line(right, [position], [perplexity], colours.get(name, GREY))
        label_point(right, position, perplexity.mean, title(name), colours.get(name, GREY), side="right")
    right.set_xlim(-0.5, len(SYSTEMS) + 0.5)
    right.set_xticks([])
    style_axes(left, title="Weight on the last n words (bars: spread)", x="n", y="share of the weight")
    style_axes(right, title="On the test (bars: spread), lower is better", x="", y="perplexity per word")
