"""Training on own outputs: "one wrong step, all wrong".

The text: a model that is trained on its own outputs begins with random ones, on which all later steps depend, so that
training is unstable and hard to converge; teacher forcing gives every step the true token before it.

Three trainings, equal but for the share of own outputs among the inputs: none (teacher forcing), a share that grows
from none to all (scheduled sampling), and all (free running). On two tasks:

    text           every symbol is followed by one of two, at random, so that own outputs leave the true text
    translation    every target word follows from the source and the target word before it, so that nothing is random

Both are measured under own outputs during training: the share of the steps of sampled texts that the language allows,
and the share of correct words. Refuted if on one of the tasks teacher forcing is not better than free running, on
average over training and at its end.

Teacher forcing: Williams and Zipser 1989. https://doi.org/10.1162/neco.1989.1.2.270
Scheduled sampling: Bengio et al. 2015. https://arxiv.org/abs/1506.03099
"""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, exceeds
from regard.experiments.lib.drawing import BLUE, ORANGE, PURPLE, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.sentence_pairs import FIRST, SentencePairs, logits_of, mean_loss, summed, word_accuracy
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit
from regard.layers import unroll
from regard.models.language_modeling import LSTMLanguageConfig, LSTMLanguageModel
from regard.models.translation import Bahdanau, BahdanauConfig
from regard.tasks import count_parameters

TITLE = Title(en="Training on own outputs", zh="用自己的输出训练")
CLAIM = Title(
    en=(
        "One wrong step, all wrong: a model that is trained on its own outputs converges later and less well than "
        "one that is given the true tokens."
    ),
    zh="一步错，步步错：用自己的输出训练的模型，比以真实词元为输入（教师强制）的模型收敛更晚，效果也更差。",
)
FULL = {"seeds": 5, "steps": 1000, "length": 16}
CHINESE = {
    "task": "任务",
    "training": "训练方式",
    "text": "文本",
    "translation": "翻译",
    "teacher forcing": "教师强制",
    "scheduled sampling": "计划采样",
    "free running": "自由运行",
    "mean over training": "训练过程的平均",
    "at the end": "结束时",
    "at the end, given true tokens": "结束时，以真实词元为输入",
    "Text: steps that the language allows": "文本：合法步的比例",
    "Translation: correct words": "翻译：正确词的比例",
    "share under own outputs": "以自己的输出为输入时的比例",
}
FORCED, SCHEDULED, FREE = "teacher forcing", "scheduled sampling", "free running"
RATIOS: Mapping[str, Callable[[float], float]] = {
    FORCED: lambda progress: 0.0,
    # from none to all, linearly (section 2.4 of the paper has this and two other schedules)
    SCHEDULED: lambda progress: progress,
    FREE: lambda progress: 1.0,
}
"""The share of own outputs by the share of training that is done."""

COLOURS = dict(zip(RATIOS, (BLUE, PURPLE, ORANGE), strict=True))
MARGIN, POINTS = 0.02, 20
"""A difference of shares that matters, and measurements in the course of training."""


class OwnOutputTask(ABC):
    """A model, its loss with a share of own outputs, and its quality under own outputs and with the true tokens."""

    model: nn.Module

    @abstractmethod
    def loss(self, ratio: float) -> Float[Tensor, ""]:
        """Nats per token on new examples."""

    @abstractmethod
    def quality(self, *, own: bool, count: int) -> float:
        """The share of right steps on new examples."""


class TextTask(OwnOutputTask):
    """A language of symbols with two possible successors each, and an LSTM."""

    def __init__(self, *, size: int, num_symbols: int, length: int) -> None:
        # two different successors each
        self.successors = torch.rand(num_symbols, num_symbols).argsort(dim=1)[:, :2]
        self.length = length
        config = LSTMLanguageConfig(
            vocab_size=num_symbols,
            embedding_size=size,
            hidden_size=size,
            num_layers=1,
            dropout=0.0,
            forget_bias=1.0,
        )
        self.model: LSTMLanguageModel = LSTMLanguageModel(config)

    def draw(self, count: int) -> Int[Tensor, "count length"]:
        """Texts from a random first symbol."""
        symbols = [torch.randint(len(self.successors), (count,))]
        while len(symbols) < self.length:
            symbols.append(self.successors[symbols[-1], torch.randint(2, (count,))])
        return torch.stack(symbols, dim=1)

    def loss(self, ratio: float) -> Float[Tensor, ""]:
        texts = self.draw(32)
        state = self.model.start(len(texts))
        logits = unroll(
            lambda tokens, state, encoded: self.model.step(tokens, state),
            texts[:, :-1],
            state=state,
            own_output_ratio=ratio,
        )
        return mean_loss(logits, texts[:, 1:])

    @torch.no_grad()
    def quality(self, *, own: bool, count: int) -> float:
        texts, state, allowed = self.draw(count), self.model.start(count), []
        tokens = texts[:, 0]
        for position in range(1, self.length):
            output = self.model.step(tokens, state)
            state = output.state
            # sampled: the most probable symbols alone would end in a short cycle
            sampled = torch.multinomial(output.logits.softmax(dim=-1), 1)[:, 0]
            allowed.append((self.successors[tokens] == sampled[:, None]).any(dim=1))
            tokens = sampled if own else texts[:, position]
        return torch.stack(allowed).double().mean().item()


class TranslationTask(OwnOutputTask):
    """Sums of the source, and RNNsearch."""

    def __init__(self, *, size: int, num_symbols: int, length: int) -> None:
        self.num_symbols, self.length = num_symbols, length
        vocab = FIRST + num_symbols
        config = BahdanauConfig(
            source_vocab_size=vocab,
            target_vocab_size=vocab,
            embedding_size=size,
            hidden_size=size,
            alignment_size=size,
            maxout_size=size,
        )
        self.model: Bahdanau = Bahdanau(config)

    def draw(self, count: int) -> SentencePairs:
        return summed(self.num_symbols, self.length, count=count)

    def loss(self, ratio: float) -> Float[Tensor, ""]:
        pairs = self.draw(32)
        return mean_loss(logits_of(self.model, pairs, own_output_ratio=ratio), pairs.labels)

    def quality(self, *, own: bool, count: int) -> float:
        return word_accuracy(self.model, self.draw(count), own_output_ratio=float(own))


@dataclass(frozen=True, kw_only=True)
class Course:
    """Quality under own outputs in the course of training and at its end, and with the true tokens at the end."""

    curve: Sequence[float]
    forced: float

    @property
    def mean(self) -> float:
        """The mean over training: low for a training that begins late or is unstable."""
        return statistics.fmean(self.curve)


def train(task: OwnOutputTask, ratio: Callable[[float], float], *, steps: int, examples: int) -> Course:
    """Train with the share of own outputs that `ratio` gives; the last measurement has four times the examples."""
    curve: list[float] = []
    interval = max(steps // POINTS, 1)

    def loss_of(step: int) -> Tensor:
        if step % interval == 0:
            curve.append(task.quality(own=True, count=examples))
        return task.loss(ratio(step / steps))

    fit(task.model, loss_of, steps=steps)
    end, forced = (task.quality(own=own, count=4 * examples) for own in (True, False))
    return Course(curve=[*curve, end], forced=forced)


Courses = Mapping[str, Mapping[str, Sequence[Course]]]
"""By task and training: one from each seed."""


def run(
    *,
    seed: int = 0,
    seeds: int = 3,
    steps: int = 240,
    size: int = 32,
    num_symbols: int = 12,
    num_words: int = 6,
    length: int = 8,
    examples: int = 200,
) -> Finding:
    """Train every way from `seeds` seeds on texts of `num_symbols` symbols and translations of `num_words` words."""
    tasks: dict[str, Callable[[], OwnOutputTask]] = {
        "text": partial(TextTask, size=size, num_symbols=num_symbols, length=length),
        "translation": partial(TranslationTask, size=size, num_symbols=num_words, length=length),
    }
    courses: dict[str, dict[str, list[Course]]] = {name: {training: [] for training in RATIOS} for name in tasks}
    rows: list[Row] = []
    for name, build in tasks.items():
        for training, ratio in RATIOS.items():
            for index in range(seeds):
                # every training of a seed begins with the same weights
                with seeded(1000 * seed + index):
                    task = build()
                    courses[name][training].append(train(task, ratio, steps=steps, examples=examples))
            by_seed = courses[name][training]
            rows.append(
                {
                    "task": name,
                    "training": training,
                    "parameters": count_parameters(task.model),
                    "mean over training": Measured.of(course.mean for course in by_seed),
                    "at the end": Measured.of(course.curve[-1] for course in by_seed),
                    "at the end, given true tokens": Measured.of(course.forced for course in by_seed),
                }
            )
    holds, verdict = judge(courses)
    return Finding(
        name="own_outputs",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, courses=courses, steps=steps),
    )


def judge(courses: Courses) -> tuple[bool | None, Title]:
    """On both tasks: teacher forcing above free running on average over training, and at its end."""
    facts: dict[str, bool | None] = {}
    english, chinese = [], []
    for task, by_training in courses.items():
        forced, scheduled, free = (by_training[name] for name in (FORCED, SCHEDULED, FREE))
        faster = exceeds([one.mean for one in forced], [one.mean for one in free], margin=MARGIN)
        ends = {name: [one.curve[-1] for one in runs] for name, runs in by_training.items()}
        better = exceeds(ends[FORCED], ends[FREE], margin=MARGIN)
        facts[task] = all_of(faster, better)
        words = {True: "clearly", False: "not", None: "not clearly, within the spread,"}
        english.append(
            f"{task.capitalize()}, under own outputs, on average over training: teacher forcing "
            f"{Measured.of(one.mean for one in forced)}, "
            f"scheduled sampling {Measured.of(one.mean for one in scheduled)}, "
            f"free running {Measured.of(one.mean for one in free)}: teacher forcing is {words[faster]} faster. "
            f"At the end {', '.join(str(Measured.of(values)) for values in ends.values())}: {words[better]} better."
        )
        words = {True: "明显更{}", False: "并不更{}", None: "更{}，但差异在误差范围内"}
        chinese.append(
            f"{CHINESE[task]}，以自己的输出为输入，训练过程的平均：教师强制 {Measured.of(one.mean for one in forced)}，"
            f"计划采样 {Measured.of(one.mean for one in scheduled)}，自由运行 {Measured.of(one.mean for one in free)}："
            f"教师强制{words[faster].format('快')}。"
            f"结束时依次为 {'、'.join(str(Measured.of(values)) for values in ends.values())}："
            f"教师强制{words[better].format('好')}。"
        )
    outcomes = {True: "holds for", False: "does not hold for", None: "is open for"}
    english.append("The claim " + ", ".join(f"{outcomes[fact]} {task}" for task, fact in facts.items()) + ".")
    outcomes = {True: "成立", False: "不成立", None: "尚无定论"}
    chinese.append("这个说法" + "，".join(f"对{CHINESE[task]}{outcomes[fact]}" for task, fact in facts.items()) + "。")
    return all_of(*facts.values()), Title(en=" ".join(english), zh="".join(chinese))


def draw_figure(figure: Any, *, courses: Courses, steps: int) -> None:
    """Quality under own outputs in the course of training: every seed, and the mean."""
    titles = ("Text: steps that the language allows", "Translation: correct words")
    for axes, title, by_training in zip(panels(figure, CLAIM, 2), titles, courses.values(), strict=True):
        for name, runs in by_training.items():
            count = len(runs[0].curve)
            # the last point is after the last step
            positions = [min(index * max(steps // POINTS, 1), steps) for index in range(count - 1)] + [steps]
            for course in runs:
                axes.plot(positions, course.curve, color=COLOURS[name], linewidth=0.7, alpha=0.5)
            means = [statistics.fmean(values) for values in zip(*(course.curve for course in runs), strict=True)]
            axes.plot(positions, means, color=COLOURS[name], linewidth=2, label=label(name))
        axes.set_ylim(0, 1.05)
        style_axes(axes, title=title, x="step", y="share under own outputs")
    # the curves cross
    axes.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="lower right")
