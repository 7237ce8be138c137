"""Bahdanau's mail: two cursors, a fixed diagonal, soft search, compared on a monotonic and a reversed sentence."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Diagonal, Monotonic, Softmax
from regard.contracts import PositionInfo
from regard.studio.lessons.bahdanau import ORDER, SOURCE, TARGET
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    chart,
    control,
    formula,
    matrix,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.lessons.equal_shares import LOVE, SentencePair
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import ChartBlock, LessonBlock

REVERSED = SentencePair(source=SOURCE, target=TARGET, glosses=("you", "are", "where"), aligned=ORDER)
PAIRS = {"monotonic": LOVE, "reversed": REVERSED}
TITLES = {"monotonic": both("same order", "语序相同"), "reversed": both("reversed", "语序相反")}
CURSORS = both("two cursors", "两个光标")
DIAGONAL, SOFT = both("fixed diagonal", "固定对角线"), both("soft search", "软搜索")

CONTROLS = (
    control("spread", both("Spread of the diagonal", "对角线的宽度"), low=0.25, high=2.0, step=0.25, value=0.5),
    control("sharpness", both("Sharpness β of soft search", "软搜索的锐度 β"), low=1.0, high=6.0, step=0.5, value=4.0),
)

STORY = text(
    "In a mail that Andrej Karpathy has published, Dzmitry Bahdanau describes how the idea came about. The "
    "bottleneck was the single vector. First idea: two cursors, one in the source, one in the target, each moved "
    "forward by the model, and all paths summed by dynamic programming. It was hard to realise. Second: a fixed "
    "diagonal, target position $t$ of $T$ attends around source position $t\\,S/T$. It worked fairly well, but it "
    "was clumsy. Third: let the decoder learn where to search. He knew it from translating in English lessons: the "
    "eyes go back and forth between the two texts. The search is a softmax over the states of a bidirectional RNN.",
    "Andrej Karpathy 公开过 Dzmitry Bahdanau 的一封邮件，信中讲了这个想法的来历。瓶颈在于只有一个向量。"
    "最初的想法是“两个光标”：一个在源句，一个在目标句，由模型决定何时前移，并用动态规划对所有路径求和，但很难实现。"
    "然后是固定的对角线：共 $T$ 个目标词时，第 $t$ 个词关注源句位置 $t\\,S/T$ 附近，效果尚可，但做法笨拙。"
    "最后是让解码器自己学习该在哪里找：这来自他在英语课上做翻译的经验，目光总在两段文字之间来回移动。"
    "这种搜索是对双向 RNN 各状态的 softmax。",
)
FORMULAS = (
    formula(r"w_{tj} = p_{tj}\,q_{tj}, \quad q_{tj} = (1 - p_{t,j-1})\, q_{t,j-1} + w_{t-1,j}"),
    formula(r"w_{tj} \propto \exp\left(-\frac{(j - tS/T)^2}{2\sigma^2}\right)"),
    formula(r"w_{tj} = \mathrm{softmax}_j(s_{tj})"),
)
CLOSING = text(
    "The formulas are those of the cursors ($p$: the cursor stops at a word), of the diagonal (with spread $\\sigma$) "
    "and of soft search. The diagonal needs no parameter and no source word, so it is a baseline of word alignment. "
    "Cursors that only move forward cannot go back to a word that they have passed: what is missing in a row is the "
    "probability that the cursor has moved past the last word. The scores of this page are set by hand; RNNsearch "
    "learns them with the translation.",
    "三个公式依次对应光标（$p$ 是光标停在某个词上的概率）、对角线（宽度为 $\\sigma$）与软搜索。"
    "对角线不需要参数，也不看源词，因此是词对齐的基线。光标只能前移，越过的词再也回不去："
    "一行里缺少的部分，就是光标已经越过最后一个词的概率。本页的分数是手工设定的；"
    "RNNsearch 则在学习翻译的同时学会评分。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Every alignment on both sentences."""
    weights = all_weights(settings["spread"], settings["sharpness"])
    # (alignments, pairs)
    shares = torch.tensor([[share(pair, rows[name]) for name, pair in PAIRS.items()] for rows in weights.values()])
    return [
        STORY,
        *FORMULAS,
        reversed_question(weights[DIAGONAL]["reversed"]),
        *(
            matrix(
                both(f"{title.en.capitalize()}: {' '.join(pair.source)}", f"{title.zh}：{' '.join(pair.source)}"),
                pair.names,
                pair.source,
                rows[name],
            )
            for name, pair in PAIRS.items()
            for title, rows in weights.items()
        ),
        which_is_better(shares[list(weights).index(DIAGONAL)], shares[list(weights).index(SOFT)]),
        matrix(
            both("Mean weight on the right word", "正确词上的平均权重"), list(weights), list(TITLES.values()), shares
        ),
        curves(),
        CLOSING,
    ]


def all_weights(spread: float, sharpness: float) -> dict[LocalizedText, dict[str, Float[Tensor, "T S"]]]:
    """Title of an alignment -> name of a pair -> weights."""
    return {
        CURSORS: {name: cursor_weights(pair, sharpness) for name, pair in PAIRS.items()},
        DIAGONAL: {name: diagonal_weights(pair, spread) for name, pair in PAIRS.items()},
        SOFT: {name: pair.weights(sharpness) for name, pair in PAIRS.items()},
    }


def cursor_weights(pair: SentencePair, sharpness: float) -> Float[Tensor, "T S"]:
    """The probability that the cursor of the source stops at each word, summed over all paths."""
    # the score of a match is positive and that of any other word negative: stop, or move on
    return Monotonic()(sharpness * (2 * pair.queries @ pair.keys - 1)).weights


def diagonal_weights(pair: SentencePair, spread: float) -> Float[Tensor, "T S"]:
    """The weights of the diagonal; the lengths of both sentences are known."""
    scores = torch.zeros(len(pair.target), len(pair.source))
    info = PositionInfo(positions=torch.arange(len(pair.target)), target_lengths=torch.tensor(len(pair.target)))
    return Diagonal(spread=spread)(scores, position_info=info).weights


def share(pair: SentencePair, weights: Float[Tensor, "T S"]) -> float:
    """The mean weight of each target word on its source word."""
    return float(torch.stack([weights[t, j] for t, j in enumerate(pair.aligned) if j is not None]).mean())


def reversed_question(weights: Float[Tensor, "T S"]) -> LessonBlock:
    """Which word does the diagonal give to the first target word?"""
    best, right = int(weights[0].argmax()), REVERSED.aligned[0]
    first = REVERSED.names[0]
    is_right = best == right
    return question(
        both(
            f"Where are you: 你在哪里. To which word does the diagonal give most weight for {first.en}?",
            f"Where are you：你在哪里。对角线让“{first.zh}”最关注哪个词？",
        ),
        list(map(same, SOURCE)),
        best,
        both(
            f"The first target word gets the first source word, with {number(weights[0, best])}, whatever the words "
            f"are: {'here it is right' if is_right else 'here it is wrong'}.",
            f"第一个目标词对应第一个源词（{number(weights[0, best])}），与词本身无关："
            f"{'这里碰巧对了' if is_right else '这里就错了'}。",
        ),
    )


def which_is_better(diagonal: Float[Tensor, " 2"], soft: Float[Tensor, " 2"]) -> LessonBlock:
    """On which sentences is soft search better?"""
    # (pairs,): True where soft search puts more on the right word
    wins = (soft > diagonal).tolist()
    choices = {
        (True, True): both("on both", "两句都是"),
        (False, True): both("on the reversed one only", "只有语序相反的那句"),
        (True, False): both("on the one of the same order only", "只有语序相同的那句"),
        (False, False): both("on neither", "两句都不是"),
    }
    pairs = [(number(fixed), number(searched)) for fixed, searched in zip(diagonal, soft, strict=True)]
    cells = " / ".join(map(", ".join, pairs))
    compared = "；".join(
        f"{title.zh}时，对角线 {fixed}，软搜索 {searched}"
        for title, (fixed, searched) in zip(TITLES.values(), pairs, strict=True)
    )
    return question(
        both(
            "On which sentence does soft search put more weight on the right words than the diagonal?",
            "与对角线相比，软搜索在哪一句上给正确的词更多权重？",
        ),
        list(choices.values()),
        list(choices).index((wins[0], wins[1])),
        both(
            f"Diagonal, soft search: {cells} (same order / reversed). A narrow diagonal can be better where the order "
            "agrees; only soft search follows the words.",
            f"{compared}。语序一致时，窄的对角线可能更好；只有软搜索依据词本身。",
        ),
    )


def curves() -> ChartBlock:
    """The share of the right words by the spread of the diagonal."""
    spreads = torch.arange(1, 9) / 4
    return chart(
        both("Diagonal: mean weight on the right word", "对角线：正确词上的平均权重"),
        both("spread", "宽度"),
        both("weight", "权重"),
        *(
            series(
                TITLES[name],
                spreads,
                [share(pair, diagonal_weights(pair, spread)) for spread in spreads.tolist()],
                points=False,
            )
            for name, pair in PAIRS.items()
        ),
    )


LESSON = LessonEntry(
    title=both("Bahdanau's mail: cursors, diagonal, soft search", "Bahdanau 的邮件：光标、对角线、软搜索"),
    summary=both(
        "How soft search came about, and what a fixed diagonal can and cannot do.",
        "软搜索是怎么来的，固定的对角线能做什么、不能做什么。",
    ),
    controls=CONTROLS,
    build=build,
    code=(Monotonic, Diagonal, Softmax),
    experiment="alignment",
)
