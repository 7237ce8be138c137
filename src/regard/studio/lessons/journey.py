"""Your journey starts: under the causal mask a word reads itself and what came before."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.masks import causal
from regard.attention.scores import ScaledDot
from regard.studio.lessons.blocks import both, control, formula, make_generator, matrix, number, question, same, text
from regard.studio.schema.pages import Block

WORDS = ("Your", "journey", "starts")
SIZE = 8

CONTROLS = (
    control("seed", both("Draw of the word vectors", "词向量的随机种子"), low=0.0, high=99.0, step=1.0, value=0.0),
)

INTRODUCTION = text(
    "A model that writes must guess the next word from the words before it. In training the whole sentence lies in "
    "front of it; were it allowed to look to the right, it would copy the answer. The mask hides what is to come.",
    "生成文本的模型要根据前面的词猜下一个词。训练时整句话都摆在它面前；如果允许往右看，它只要照抄答案就行。"
    "因果掩码遮住的就是这些“剧透”。",
)
FORMULA = formula(
    r"w = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d}} + M\right), \qquad "
    r"M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}"
)


def build(settings: Mapping[str, float]) -> list[Block]:
    """Scores, mask, weights."""
    words = torch.randn(len(WORDS), SIZE, generator=make_generator(int(settings["seed"])))
    scores, allowed = ScaledDot()(words, words), torch.ones(len(WORDS), len(WORDS)).tril().bool()
    free, masked = weights_for_queries(words, masked=False), weights_for_queries(words, masked=True)
    ahead = number(free[0, 1:].sum())
    return [
        INTRODUCTION,
        matrix(both("Scores of all pairs", "所有词对的评分"), WORDS, WORDS, scores),
        FORMULA,
        matrix(both("After the mask", "加上掩码之后"), WORDS, WORDS, scores, allowed),
        first_word(masked),
        who_reads(masked),
        matrix(both("Weights under the mask", "掩码下的权重"), WORDS, WORDS, masked, allowed),
        matrix(both("Weights without it", "不加掩码的权重"), WORDS, WORDS, free),
        text(
            f"Without the mask the first word would take {ahead} of its context from words that are not written yet. "
            "With it, each row is shared anew among the words so far, and still sums to 1. Draw other vectors: the "
            "numbers change, the zeros stay.",
            f"没有掩码时，第一个词的上下文有 {ahead} 来自尚未写出的词。加上掩码后，每行只在已写出的词之间重新分配，"
            "和仍为 1。换一组词向量试试：数字会变，零不会变。",
        ),
    ]


def weights_for_queries(words: Float[Tensor, "3 8"], *, masked: bool) -> Float[Tensor, "3 3"]:
    """Each word reads the sentence, or what the mask leaves of it."""
    weights = attend(words, words, words, mask=causal() if masked else None, return_weights=True).weights
    assert weights is not None
    return weights


def first_word(weights: Float[Tensor, "3 3"]) -> Block:
    """How much of itself does the first word read?"""
    choices = torch.tensor([0.0, 1 / len(WORDS), 1.0])
    return question(
        both('What weight does "Your" give itself?', "“Your” 给自己多少权重？"),
        [same(number(choice)) for choice in choices],
        int((choices - weights[0, 0]).abs().argmin()),
        both(
            f"It sees nothing else, so softmax leaves it everything: {number(weights[0, 0])}.",
            f"它看不到别的词，softmax 只能把全部权重给它自己：{number(weights[0, 0])}。",
        ),
    )


def who_reads(weights: Float[Tensor, "3 3"]) -> Block:
    """Which words does the second one read?"""
    read = [word for word, weight in zip(WORDS, weights[1], strict=True) if weight > 0]
    choices = (WORDS[:1], WORDS[:2], WORDS)
    return question(
        both('Which words does "journey" read?', "“journey” 读到哪些词？"),
        [same(", ".join(choice)) for choice in choices],
        [list(choice) for choice in choices].index(read),
        both(
            f'{number(weights[1, 0])} of "Your", {number(weights[1, 1])} of itself, and of "starts" exactly '
            f"{number(weights[1, 2], 0)}.",
            f"“Your” 占 {number(weights[1, 0])}，自己占 {number(weights[1, 1])}，“starts” 恰好是 "
            f"{number(weights[1, 2], 0)}。",
        ),
    )
