"""一个 becomes a or an, and only the noun behind it can tell."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.studio.lessons.blocks import both, chart, control, formula, matrix, number, question, same, series, text
from regard.studio.schema.pages import Block, ChartBlock

WORDS = ("我", "吃了", "一个", "苹果", "，", "然后", "吃了", "一个", "香蕉")
ARTICLES = {"an": 2, "a": 7}
"""What is written, and where its 一个 stands."""
CONTENT = torch.tensor([0.0, 0.0, 2.0, 4.0, 0.0, 0.0, 0.0, 2.0, 4.0])
"""How well a word answers the question for an article: 一个 somewhat, a noun more."""
SOUND = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0])
"""The English noun begins with a vowel: 1 yes (apple), -1 no (banana), 0 is no noun."""
CERTAINTY, FARTHEST = 5.0, 6

CONTROLS = (
    control(
        "ahead",
        both("Words it may look ahead", "允许向后看几个词"),
        low=0.0,
        high=float(FARTHEST),
        step=1.0,
        value=1.0,
    ),
)


OPENING: tuple[Block, ...] = (
    text(
        "我吃了一个苹果，然后吃了一个香蕉: I ate an apple and then a banana. Both times 一个 is the same word, yet it "
        'becomes "an" once and "a" once. The numbers here are set by hand, to be small enough to follow.',
        "我吃了一个苹果，然后吃了一个香蕉：I ate an apple and then a banana。两次都是“一个”，却一次译成 an，"
        "一次译成 a。为了便于跟算，这里的数字是手工设定的。",
    ),
    formula(
        rf"s_{{ij}} = \mathrm{{content}}_j - |i - j|, \qquad "
        rf"P(\mathrm{{an}}) = \sigma\left({CERTAINTY:g} \sum_j w_{{ij}}\, v_j\right)"
    ),
    text(
        "The writer of an article at $i$ looks for nouns, near ones first. What it reads is the sound: $v_j = 1$ for "
        "苹果 (apple, a vowel), $-1$ for 香蕉 (banana, a consonant), 0 for every other word.",
        "在位置 $i$ 写冠词时，要找名词，而且越近越好。读到的是发音：苹果（apple，元音开头）$v_j = 1$，"
        "香蕉（banana，辅音开头）$v_j = -1$，其他词为 0。",
    ),
)


def build(settings: Mapping[str, float]) -> list[Block]:
    """Both articles, blind and with the noun in sight."""
    ahead = int(settings["ahead"])
    first, second = (number(one) for one in probabilities(ahead))
    return [
        *OPENING,
        *blind_questions(),
        matrix(
            both(f"Weights, {ahead} ahead", f"注意力权重，向后看 {ahead} 个词"),
            list(ARTICLES),
            WORDS,
            weights_for_queries(ahead),
            visible(ahead),
        ),
        curves(),
        text(
            f"With {ahead} ahead, P(an) is {first} for the first and {second} for the second. A translator has the "
            'whole source before it writes: attention may look at 苹果 while it writes "an".',
            f"向后看 {ahead} 个词时，P(an) 在第一处为 {first}，第二处为 {second}。"
            "翻译时整句原文都在眼前：写 an 的那一刻，注意力可以去看“苹果”。",
        ),
    ]


def blind_questions() -> list[Block]:
    """What can be known with nothing ahead in sight?"""
    first, second = probabilities(0).tolist()
    choices = {
        0.0: both('near 0: it is sure of "a"', "接近 0：确定是 a"),
        0.5: both("0.5: it cannot know", "0.5：无从判断"),
        1.0: both('near 1: it is sure of "an"', "接近 1：确定是 an"),
    }
    return [
        question(
            both(
                'Reading from the left and no further than 一个: how probable is "an" for the first article?',
                "从左往右读，只读到“一个”为止：第一个冠词是 an 的概率是多少？",
            ),
            list(choices.values()),
            min(range(len(choices)), key=lambda place: abs(first - list(choices)[place])),
            both(
                f"No noun is in sight, so nothing that was read has a sound: P(an) = {number(first)}.",
                f"视野里没有名词，读到的内容不含任何发音信息：P(an) = {number(first)}。",
            ),
        ),
        question(
            both("And the second article, under the same rule: it leans to", "同样的规则下，第二个冠词会偏向"),
            [both('"a", as it should', "a，这是对的"), both('"an", which is wrong', "an，这是错的")],
            int(second > 0.5),
            both(
                f"The only noun it can see is 苹果, far behind it: P(an) = {number(second)}.",
                f"它能看到的名词只有前面很远处的“苹果”：P(an) = {number(second)}。",
            ),
        ),
    ]


def visible(ahead: int) -> Bool[Tensor, "2 9"]:
    """Everything up to so many words behind each 一个."""
    places = torch.tensor(list(ARTICLES.values()))
    return torch.arange(len(WORDS)) <= places[:, None] + ahead


def weights_for_queries(ahead: int) -> Float[Tensor, "2 9"]:
    """Where the writer of each article looks."""
    places = torch.tensor(list(ARTICLES.values()))
    scores = CONTENT - (places[:, None] - torch.arange(len(WORDS))).abs()
    return Softmax()(scores, visible(ahead)).weights


def probabilities(ahead: int) -> Float[Tensor, " 2"]:
    """P(an) for each article."""
    return torch.sigmoid(CERTAINTY * (weights_for_queries(ahead) @ SOUND))


def curves() -> ChartBlock:
    """P(an) as more of the sentence comes into sight."""
    steps = torch.arange(FARTHEST + 1)
    found = torch.stack([probabilities(ahead) for ahead in range(FARTHEST + 1)])
    labels = (both("first 一个 (an)", "第一个“一个”（an）"), both("second 一个 (a)", "第二个“一个”（a）"))
    return chart(
        both("P(an)", "an 的概率"),
        both("words ahead", "向后看的词数"),
        same("P(an)"),
        *(series(label, steps.float(), found[:, place], points=False) for place, label in enumerate(labels)),
    )
