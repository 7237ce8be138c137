"""Short attention spans: does a language model that may look back at 15 words use them, and does looking pay at all?

Daniluk, Rocktaeschel, Welbl and Riedel 2017. https://arxiv.org/abs/1702.04521
An LSTM, three forms of attention over its last 15 outputs, and the 4-gram RNN, which lays parts of the last three
outputs side by side: all of one size in parameters, learned alike on the same text, one after another from equal seeds.

    python -m regard experiment attention_span     Python's own documentation, small models
    recorded(runs)                                 the same verdict of recorded runs, such as those on Penn Treebank
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from regard.data.batching import SegmentData, SegmentSettings
from regard.data.corpora import TextCorpus, TopicsCorpus
from regard.data.text import Stream, Tokenizer, TokenizerSettings, make_stream
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, dress, line, name_at, panels
from regard.experiments.lib.finding import Cell, Finding, Measured, Row, clearly_above
from regard.experiments.lib.small_transformer import seeded
from regard.metrics import SPANS
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.tasks import count_parameters, equal_size, report_of
from regard.tasks.language_modeling import likelihood, spans
from regard.training import StreamObjective

CLAIM = (
    "A language model that may attend to its last 15 words mainly uses five; keys, values and predictions apart help, "
    "but a 4-gram RNN without attention is on par."
)
WINDOW, SHORT = 15, 5
LOOKING = ("attention", "key_value", "key_value_predict")
SYSTEMS = ("lstm", *LOOKING, "ngram_rnn")
"""All but the last in the paper's order, from the worst perplexity to the best."""

RARE = 0.1
"""What is added to the count of every word, so that none is impossible."""

BETTER, WORSE = "clearly better than", "clearly worse than"
FEWEST = 2
"""Seeds, below which nothing is said of chance."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one training led to: perplexity per word, and the share of the weight within each of SPANS."""

    parameters: int
    perplexity: float
    within: tuple[float, ...] = ()

    @property
    def short(self) -> float:
        """The share of the weight that falls on the last five words."""
        return self.within[SPANS.index(SHORT)]


Outcomes = Mapping[str, Sequence[Outcome]]


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What is read and how often, and how large the models are: as large as a Key-Value-Predict of `hidden_size`."""

    training: Stream
    test: Stream
    vocab_size: int
    hidden_size: int
    epochs: int

    @classmethod
    def of(cls, corpus: TextCorpus, *, vocab_size: int, hidden_size: int, epochs: int, characters: int) -> "Lesson":
        """The beginnings of both texts, word by word."""
        texts = [corpus.read(split)[:characters] for split in ("train", "test")]
        tokenizer = Tokenizer.train(texts[0].split("\n"), TokenizerSettings(kind="words", vocab_size=vocab_size))
        training, test = (make_stream(text, tokenizer) for text in texts)
        sizes = {"vocab_size": tokenizer.vocab_size, "hidden_size": hidden_size, "epochs": epochs}
        return cls(training=training, test=test, **sizes)

    def build(self, name: str, hidden_size: int) -> Any:
        """A system of one layer; every LSTM begins with open forget gates."""
        entry = LANGUAGE_MODELS[name]
        own: dict[str, Any] = {"window": WINDOW}
        if name not in LOOKING:
            own = {"forget_bias": 1.0} if name == "lstm" else {"order": 4}
        return entry.build(
            entry.config(
                vocab_size=self.vocab_size,
                embedding_size=self.hidden_size,
                hidden_size=hidden_size,
                num_layers=1,
                dropout=0.3,
                **own,
            )
        )

    def parameters_of(self, name: str, hidden_size: int) -> int:
        """How many a system of this size has."""
        with torch.device("meta"):
            return count_parameters(self.build(name, hidden_size))

    def equal_size(self, name: str) -> int:
        """The hidden size at which a system has about as many parameters as the one they are all made equal to."""
        goal = self.parameters_of(LOOKING[-1], self.hidden_size)
        return equal_size(goal, partial(self.parameters_of, name), max_size=4 * self.hidden_size)

    def begin(self, model: Any) -> None:
        """The readout's bias begins with the words' frequencies; learned, they would first saturate every tanh."""
        counts = np.bincount(self.training.ids, minlength=self.vocab_size) + RARE
        with torch.no_grad():
            model.readout.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def learn(self, model: Any) -> None:
        """Adam over the text from beginning to end, the state carried, the rate falling to nothing."""
        data = SegmentData(self.training, SegmentSettings(rows=16, length=32))
        objective = StreamObjective(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, fused=True)
        steps = self.epochs * len(data.order.epoch(0))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for epoch in range(self.epochs):
            for starts in data.order.epoch(epoch):
                segment = data.make(starts)
                optimizer.zero_grad()
                (objective(segment) / segment.num_tokens).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()

    def attempt(self, seed: int, name: str, hidden_size: int) -> Outcome:
        """Learn from a seed, then read the test, the state carried through all of it."""
        with seeded(seed):
            model = self.build(name, hidden_size)
            self.begin(model)
            self.learn(model)
            found = likelihood(model, self.test)
            looks = spans(model, self.test) if LANGUAGE_MODELS[name].attends else {}
        within = next((mass.within for mass in looks.values()), ())
        return Outcome(parameters=count_parameters(model), perplexity=found.perplexity, within=within)


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
    """Train every system from `seeds` seeds on a text, of which no more than so many characters are read."""
    lesson = Lesson.of(
        corpus or TopicsCorpus(),
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        epochs=epochs,
        characters=characters,
    )
    sizes = {name: lesson.equal_size(name) for name in SYSTEMS}
    return find(
        {
            name: [lesson.attempt(1000 * seed + place, name, size) for place in range(seeds)]
            for name, size in sizes.items()
        }
    )


def recorded(runs: Mapping[str, Any], *, prefix: str = "equal_", split: str = "test") -> Finding:
    """The finding of runs that were recorded: `<prefix><system>-<seed>`, each with a language report of the split."""
    common = common_seeds(runs, prefix=prefix, split=split)
    if len(common) < FEWEST:
        raise ValueError(
            f"{len(common)} seeds have a run of each of {', '.join(prefix + name for name in SYSTEMS)}. "
            f"Record {FEWEST} or more."
        )
    return find({name: [outcome_of(runs[f"{prefix}{name}-{seed}"][split]) for seed in common] for name in SYSTEMS})


def common_seeds(runs: Mapping[str, Any], *, prefix: str = "equal_", split: str = "test") -> list[str]:
    """The seeds of which every system has a run."""
    seeds = [
        {key.rpartition("-")[2] for key in runs if key.rpartition("-")[0] == prefix + name and split in runs[key]}
        for name in SYSTEMS
    ]
    return sorted(set.intersection(*seeds))


def outcome_of(record: Mapping[str, Any]) -> Outcome:
    """From the report of a language model, as JSON has it."""
    report = report_of(record)
    perplexity, distances = report.metric("perplexity"), report.table("attention_distance")
    assert perplexity is not None
    row = distances.rows[0][1 : 1 + len(SPANS)] if distances else ()
    within = tuple(share for share in row if isinstance(share, float))
    return Outcome(parameters=report.info.parameters, perplexity=perplexity.value, within=within)


def find(outcomes: Outcomes) -> Finding:
    """Table, verdict and figure."""
    holds, verdict = judge(outcomes)
    return Finding(
        name="attention_span",
        claim=CLAIM,
        rows=tuple(rows_of(outcomes)),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, outcomes=outcomes),
    )


def rows_of(outcomes: Outcomes) -> list[Row]:
    """A row a system, and what weight spread evenly would give."""
    rows: list[Row] = []
    for name, runs in outcomes.items():
        shares: Sequence[Cell] = reach(runs) or [""] * len(SPANS)
        rows.append(
            {
                "system": title(name),
                "parameters": runs[0].parameters,
                "perplexity": Measured.of(one.perplexity for one in runs),
                **{f"last {span}": share for span, share in zip(SPANS, shares, strict=True)},
            }
        )
    even = {f"last {span}": span / WINDOW for span in SPANS}
    return [*rows, {"system": "spread evenly", "parameters": "", "perplexity": "", **even}]


def reach(runs: Sequence[Outcome]) -> list[Measured]:
    """The share of the weight within each span; nothing where nothing is looked at."""
    # the last share is 1 but for rounding, and rounding has no spread
    columns = zip(*(one.within for one in runs), strict=True)
    return [Measured.of(round(share, 6) for share in shares) for shares in columns]


def title(name: str) -> str:
    """A system as people call it."""
    return "4-gram RNN" if name == "ngram_rnn" else LANGUAGE_MODELS[name].title


def judge(outcomes: Outcomes) -> tuple[bool, str]:
    """Short: most of the weight, and clearly more than an even share. In order, on par: by the spread over seeds."""
    perplexities = {name: [one.perplexity for one in runs] for name, runs in outcomes.items()}
    shares = {name: [one.short for one in outcomes[name]] for name in LOOKING}
    even = SHORT / WINDOW
    short = all(min(found) > 0.5 and clearly_above(found, [even] * len(found)) for found in shares.values())
    ranks = {
        name: standing(perplexities[name], perplexities[other]) + " " + title(other)
        for other, name in (*pairwise(SYSTEMS[:-1]), SYSTEMS[-2:])
    }
    broken = [f"{title(name)} is {ranks[name]}" for name in LOOKING if not ranks[name].startswith(BETTER)]
    simple = ranks[SYSTEMS[-1]]
    told = ", ".join(f"{title(name)} {Measured.of(found).mean:.0%}" for name, found in shares.items())
    listed = ", ".join(f"{title(name)} {Measured.of(perplexities[name])}" for name in SYSTEMS)
    said = (
        f"Of the weight on {WINDOW} words the last {SHORT} have {told} (evenly spread, {even:.0%}): "
        f"{'attention mainly uses them' if short else 'attention does not mainly use them'}. "
        f"Perplexity: {listed}. "
        f"{'; '.join(broken) + '.' if broken else 'Each form of attention is clearly better than the one before it.'} "
        f"The {title(SYSTEMS[-1])} is {simple}."
    )
    return short and not broken and not simple.startswith(WORSE), said


def standing(own: Sequence[float], other: Sequence[float]) -> str:
    """How perplexities compare with others of the same seeds."""
    return BETTER if clearly_above(other, own) else WORSE if clearly_above(own, other) else "on par with"


def draw_figure(figure: Any, *, outcomes: Outcomes) -> None:
    """How far each attention reaches, and what each system is worth."""
    left, right = panels(figure, CLAIM, 2)
    colours = dict(zip(LOOKING, (BLUE, ORANGE, GREEN), strict=True))
    for name, colour in colours.items():
        line(left, SPANS, reach(outcomes[name]), colour)
        left.plot([], [], color=colour, label=title(name))
    left.plot(SPANS, [span / WINDOW for span in SPANS], color=GREY, linestyle=":", label="spread evenly")
    left.axvline(SHORT, color=GREY, linewidth=0.7, zorder=0)
    left.set_ylim(0, 1.05)
    left.set_xticks(SPANS)
    # the curves lie too close for names beside them
    left.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="lower right")
    for place, name in enumerate(SYSTEMS):
        found = Measured.of(one.perplexity for one in outcomes[name])
        line(right, [place], [found], colours.get(name, GREY))
        name_at(right, place, found.mean, title(name), colours.get(name, GREY), side="right")
    right.set_xlim(-0.5, len(SYSTEMS) + 0.5)
    right.set_xticks([])
    dress(left, title="Weight on the last n words (bars: spread)", x="n", y="share of the weight")
    dress(right, title="On the test (bars: spread), lower is better", x="", y="perplexity per word")
