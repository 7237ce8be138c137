"""Heads as experts: three heads and a single one with the same projections, on one word."""

from collections.abc import Mapping
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.experiments import entropy_of
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
from regard.studio.schema.pages import ChartBlock, LessonBlock

WORDS = ("The", "cat", "drank", "the", "milk", "because", "it", "was", "hungry")
IT = WORDS.index("it")
EXPERTS = (both("grammar", "语法"), both("reference", "指代"), both("mood", "情感"))
KEYS = torch.tensor(
    [
        # the verb of it; the noun of it; the word of a feeling
        [0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0],
    ]
)
"""The key of each word in each head."""
HEADS = len(EXPERTS)
# two numbers for each head: a factor of the query, and a factor of the key
SIZE = 2 * HEADS

CONTROLS = (
    control("sharpness", both("Size of the queries β", "查询的大小 β"), low=1.0, high=10.0, step=1.0, value=6.0),
)

INTRODUCTION = text(
    "One attention has one distribution for each query, so it can express one relation at a time. The word `it` has "
    "several: it is the subject of `was`, it refers to `cat`, and the mood of the sentence is in `hungry`. Three "
    "heads, each with its own projections, take one relation each. The projections are set by hand; trained heads "
    "specialise less cleanly.",
    "单头注意力对每个查询只有一个分布，一次只能表示一种关系。而 `it` 有好几种关系：它是 `was` 的主语，指代 `cat`，"
    "句子的情感则在 `hungry` 上。三个头各有自己的投影，各负责一种关系。"
    "这里的投影是手工设定的；训练出来的头分工没有这么清楚。",
)
FORMULA = formula(
    r"\mathrm{head}_h = \mathrm{attend}(W_Q^h x,\ W_K^h x,\ W_V^h x), \qquad "
    r"\mathrm{output} = W_O\,[\mathrm{head}_1; \dots; \mathrm{head}_H]"
)
CLOSING = text(
    "Both have the same matrices and the same number of parameters: the heads only divide the numbers of a vector. "
    "The single head adds the three scores before the softmax, so three relations share one distribution. The page "
    "Heads lists the heads of a trained model with their entropy, and removes them one by one.",
    "两者的矩阵相同，参数也一样多：多头只是把向量分成几段。单头在 softmax 之前就把三种分数加在一起，"
    "三种关系只好共用一个分布。“注意力头”页面列出训练好的模型的每个头及其熵，还能逐个去掉。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Three heads and one on the same word."""
    sharpness = settings["sharpness"]
    experts, single = weights_of_it(HEADS, sharpness), weights_of_it(1, sharpness)
    entropies = entropy_of(torch.cat([experts, single]))
    rows = [*EXPERTS, both("one head", "单头")]
    return [
        INTRODUCTION,
        FORMULA,
        reference_question(experts[1]),
        matrix(both("Weights of it: three heads", "it 的权重：三个头"), EXPERTS, WORDS, experts),
        single_question(experts, single[0]),
        matrix(both("Weights of it: one head", "it 的权重：单头"), rows[-1:], WORDS, single),
        matrix(
            both("Entropy of the weights, nats", "权重的熵（纳特）"), rows, (both("entropy", "熵"),), entropies[:, None]
        ),
        curves(),
        CLOSING,
    ]


def vectors(sharpness: float) -> Float[Tensor, "9 6"]:
    """For each head: the query and the key of each word."""
    queries = torch.zeros(len(WORDS), HEADS)
    queries[IT] = sharpness
    # (words, heads, 2) -> (words, 6)
    return torch.stack([queries, KEYS.T], dim=-1).flatten(1)


@cache
def make_attention(num_heads: int) -> MultiHeadAttention:
    """The same projections for any number of heads: queries from the first of each pair, keys from the second."""
    # on the meta device, so that no random numbers are drawn
    with torch.device("meta"):
        attention = MultiHeadAttention(SIZE, num_heads)
    attention.to_empty(device="cpu")
    query_weight, key_weight = torch.zeros(SIZE, SIZE), torch.zeros(SIZE, SIZE)
    first = torch.arange(0, SIZE, 2)
    query_weight[first, first], key_weight[first, first + 1] = 1.0, 1.0
    for proj, weight in (
        (attention.query_proj, query_weight),
        (attention.key_proj, key_weight),
        (attention.value_proj, torch.eye(SIZE)),
        (attention.output_proj, torch.eye(SIZE)),
    ):
        proj.weight = nn.Parameter(weight)
        nn.init.zeros_(proj.bias)
    return attention.eval()


def weights_of_it(num_heads: int, sharpness: float) -> Float[Tensor, "H 9"]:
    """The weights of it in every head."""
    weights = make_attention(num_heads)(vectors(sharpness)[None], return_weights=True).weights
    assert weights is not None
    result: Tensor = weights[0, :, IT]
    return result


def reference_question(weights: Float[Tensor, " 9"]) -> LessonBlock:
    """To which word does the head of reference attend?"""
    best, choices = int(weights.argmax()), [1, 4, 7, 8]
    return question(
        both(
            "The second head relates `it` to its noun. On which word is its largest weight?",
            "第二个头把 `it` 与它指代的名词联系起来。它在哪个词上的权重最大？",
        ),
        [same(WORDS[choice]) for choice in choices],
        choices.index(best),
        both(
            f"{WORDS[best]}: {number(weights[best])}; milk, the other noun, has {number(weights[4])}.",
            f"{WORDS[best]}：{number(weights[best])}；另一个名词 milk 是 {number(weights[4])}。",
        ),
    )


def single_question(experts: Float[Tensor, "3 9"], single: Float[Tensor, " 9"]) -> LessonBlock:
    """How large is the largest weight of the single head, beside those of the three?"""
    each, largest = experts.amax(dim=1), single.max()
    outcomes = (largest > each.max(), each.min() <= largest <= each.max(), largest < each.min())
    shares = list(map(number, each))
    return question(
        both(
            "A single head with the same projections: how large is its largest weight, beside those of the three?",
            "投影相同、但只有一个头：它最大的权重与三个头的相比如何？",
        ),
        [both("larger", "更大"), both("about as large", "差不多"), both("smaller than each of them", "比每一个都小")],
        [bool(outcome) for outcome in outcomes].index(True),
        both(
            f"{number(largest)} against {', '.join(shares)}: was, cat and hungry have the same score and share one "
            "distribution.",
            f"{number(largest)}，而三个头分别是 {'、'.join(shares)}：was、cat 与 hungry 分数相同，共享一个分布。",
        ),
    )


def curves() -> ChartBlock:
    """The weight on cat by the size of the queries."""
    sizes = torch.arange(1, 11).float()
    lines = ((both("head of reference", "指代头"), HEADS, 1), (both("one head", "单头"), 1, 0))
    return chart(
        both("Weight of it on cat", "it 对 cat 的权重"),
        same("β"),
        both("weight", "权重"),
        *(
            series(
                label,
                sizes,
                [float(weights_of_it(heads, size)[row, WORDS.index("cat")]) for size in sizes.tolist()],
                points=False,
            )
            for label, heads, row in lines
        ),
    )


LESSON = LessonEntry(
    title=both("Heads as experts", "各有专长的注意力头"),
    summary=both(
        "Grammar, reference and mood: three heads on one word, and what a single head makes of it.",
        "语法、指代、情感：三个头处理同一个词，单头又会怎样。",
    ),
    controls=CONTROLS,
    build=build,
    code=(MultiHeadAttention,),
    experiment="heads_specialise",
)
