"""一个 is translated to a or an, depending on the noun that follows."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    chart,
    control,
    formula,
    glossed,
    matrix,
    nearest_choice,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.schema.pages import ChartBlock, LessonBlock

WORDS = ("我", "吃了", "一个", "苹果", "，", "然后", "吃了", "一个", "香蕉")
GLOSSES = ("I", "ate", "one", "apple", "", "then", "ate", "one", "banana")
NAMES = tuple(glossed(word, gloss) for word, gloss in zip(WORDS, GLOSSES, strict=True))
"""The words, in English with their meaning."""
ARTICLES = {"an": 2, "a": 7}
"""Each article, and the position of its 一个."""
CONTENT = torch.tensor([0.0, 0.0, 2.0, 4.0, 0.0, 0.0, 0.0, 2.0, 4.0])
"""Content score of each word for the choice of an article: 一个 somewhat, a noun more."""
SOUND = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0])
"""The English noun begins with a vowel: 1 yes (apple), -1 no (banana), 0 is no noun."""
CERTAINTY, MAX_AHEAD = 5.0, 6

CONTROLS = (
    control(
        "ahead",
        both("Words ahead that are visible", "可以看到后面几个词"),
        low=0.0,
        high=float(MAX_AHEAD),
        step=1.0,
        value=1.0,
    ),
)


OPENING: tuple[LessonBlock, ...] = (
    text(
        "我吃了一个苹果，然后吃了一个香蕉: I ate an apple and then a banana. Both times 一个 is the same word, yet it "
        'becomes "an" once and "a" once. The numbers here are set by hand, to be small enough to follow.',
        "我吃了一个苹果，然后吃了一个香蕉：I ate an apple and then a banana。两次都是“一个”，却一次译成 an，"
        "一次译成 a。这里的数字是手工设定的，小到可以跟着计算。",
    ),
    formula(
        rf"s_{{ij}} = \mathrm{{content}}_j - |i - j|, \qquad "
        rf"P(\mathrm{{an}}) = \sigma\left({CERTAINTY:g} \sum_j w_{{ij}}\, v_j\right)"
    ),
    text(
        "For an article at $i$, nouns have high scores, near ones higher. The values are the sound: $v_j = 1$ for 苹果 "
        "(apple, a vowel), $-1$ for 香蕉 (banana, a consonant), 0 for every other word.",
        "在位置 $i$ 选择冠词时，名词的分数高，越近越高。值是发音：苹果（apple，元音开头）$v_j = 1$，"
        "香蕉（banana，辅音开头）$v_j = -1$，其他词为 0。",
    ),
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Both articles, without and with the noun visible."""
    ahead = int(settings["ahead"])
    first, second = (number(one) for one in probabilities(ahead))
    return [
        *OPENING,
        *questions_without_noun(),
        matrix(
            both(f"Weights, {ahead} words ahead visible", f"注意力权重，可见后面 {ahead} 个词"),
            list(ARTICLES),
            NAMES,
            article_weights(ahead),
            visible_words(ahead),
        ),
        curves(),
        text(
            f"With {ahead} words ahead visible, P(an) is {first} for the first and {second} for the second. A "
            'translation model encodes the whole source first: while it generates "an", it can attend to 苹果.',
            f"可见后面 {ahead} 个词时，P(an) 在第一处为 {first}，第二处为 {second}。"
            "翻译模型先编码整个源句：生成 an 时，可以关注“苹果”。",
        ),
    ]


def questions_without_noun() -> list[LessonBlock]:
    """What is P(an) if nothing ahead is visible?"""
    first, second = probabilities(0).tolist()
    choices = {
        0.0: both('near 0: "a" is certain', "接近 0：确定是 a"),
        0.5: both("0.5: both are equally probable", "0.5：两者概率相同"),
        1.0: both('near 1: "an" is certain', "接近 1：确定是 an"),
    }
    return [
        question(
            both(
                'Reading from the left and no further than 一个: how probable is "an" for the first article?',
                "从左往右读，只读到“一个”为止：第一个冠词是 an 的概率是多少？",
            ),
            list(choices.values()),
            nearest_choice(list(choices), first),
            both(
                f"No noun is visible, so all values are 0: P(an) = {number(first)}.",
                f"看不到名词，所有的值都是 0：P(an) = {number(first)}。",
            ),
        ),
        question(
            both("And for the second article, which is more probable?", "第二个冠词呢：哪一个更可能？"),
            [both('"a", as it should', "a，这是对的"), both('"an", which is wrong', "an，这是错的")],
            int(second > 0.5),
            both(
                f"The only visible noun is 苹果, far before it: P(an) = {number(second)}.",
                f"能看到的名词只有前面很远处的“苹果”：P(an) = {number(second)}。",
            ),
        ),
    ]


def visible_words(ahead: int) -> Bool[Tensor, "2 9"]:
    """True up to `ahead` words after each 一个."""
    positions = torch.tensor(list(ARTICLES.values()))
    # (2, 1) against (9,)
    return torch.arange(len(WORDS)) <= positions[:, None] + ahead


def article_weights(ahead: int) -> Float[Tensor, "2 9"]:
    """The weights for each article."""
    positions = torch.tensor(list(ARTICLES.values()))
    # (2, 9): the distance of each word from each article
    scores = CONTENT - (positions[:, None] - torch.arange(len(WORDS))).abs()
    return Softmax()(scores, visible_words(ahead)).weights


def probabilities(ahead: int) -> Float[Tensor, " 2"]:
    """P(an) for each article."""
    return torch.sigmoid(CERTAINTY * (article_weights(ahead) @ SOUND))


def curves() -> ChartBlock:
    """P(an) by the number of visible words."""
    steps = torch.arange(MAX_AHEAD + 1)
    by_ahead = torch.stack([probabilities(ahead) for ahead in range(MAX_AHEAD + 1)])
    labels = (both("first 一个 (an)", "第一个“一个”（an）"), both("second 一个 (a)", "第二个“一个”（a）"))
    return chart(
        both("P(an)", "an 的概率"),
        both("visible words ahead", "可见的后续词数"),
        same("P(an)"),
        *(series(label, steps.float(), by_ahead[:, index], points=False) for index, label in enumerate(labels)),
    )


LESSON = LessonEntry(
    title=both("A or an? Translating 一个", "“一个”译成 a 还是 an？"),
    summary=both(
        "It depends on the noun that follows, so the model must attend to it.",
        "这取决于后面的名词，所以模型必须关注它。",
    ),
    controls=CONTROLS,
    build=build,
    code=(Softmax,),
    experiment="directions",
)
