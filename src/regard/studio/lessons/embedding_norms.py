"""Why embeddings are multiplied by the square root of d_model: norms of words and positions, measured."""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.positions import Sinusoidal
from regard.layers import Embedding
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    chart,
    control,
    formula,
    make_generator,
    matrix,
    nearest_choice,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.schema.pages import ChartBlock, LessonBlock

VOCAB_SIZE, SEED, LEAST_DOUBLINGS, MOST_DOUBLINGS = 64, 0, 3, 10

CONTROLS = (
    control(
        "doublings",
        both("Size d = 2^n, n", "维度 d = 2^n 中的 n"),
        low=float(LEAST_DOUBLINGS),
        high=float(MOST_DOUBLINGS),
        step=1.0,
        value=9.0,
    ),
)

INTRODUCTION = text(
    f"The input of a Transformer is a word vector plus a position vector. {VOCAB_SIZE} word vectors are sampled with "
    "variance $1/d$, the usual initialisation, and the same number of sinusoidal positions is computed.",
    f"Transformer 的输入是词向量加位置向量。这里按常用的初始化（方差 $1/d$）随机取 {VOCAB_SIZE} 个词向量，"
    "再算出同样多的正弦位置向量。",
)
FORMULA = formula(
    r"|E_w|^2 = \sum_{i=1}^{d} E_{wi}^2 \approx d \cdot \frac{1}{d} = 1, \qquad "
    r"|p_t|^2 = \sum_{i=1}^{d/2} (\sin^2 + \cos^2) = \frac{d}{2}, \qquad |\sqrt{d}\, E_w| \approx \sqrt{d}"
)
CLOSING = text(
    "The factor applies to the input alone: where the same table is the output layer (tied weights), it is used "
    "unscaled. Learned positions start with the norm of words, so for them the argument does not hold.",
    "这个系数只用于输入：同一张表兼作输出层（权重共享）时不缩放。"
    "可学习的位置向量，初始范数与词向量相同，因此上面的理由对它们不成立。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Norms at one size, then by size."""
    size = 2 ** int(settings["doublings"])
    words, scaled, positions = word_vectors(size), scaled_vectors(size), position_vectors(size)
    norms = mean_norms(size)
    left = torch.stack([F.cosine_similarity(rows + positions, rows, dim=-1).mean() for rows in (words, scaled)])
    return [
        INTRODUCTION,
        norm_question(size, norms[0].item()),
        position_question(size, norms[2].item()),
        FORMULA,
        matrix(
            both(f"Mean norm at d = {size}", f"d = {size} 时的平均范数"),
            (both("word", "词"), both("word times √d", "词乘以 √d"), both("position", "位置")),
            (both("norm", "范数"),),
            norms[:, None],
        ),
        chart_of_norms(),
        sum_question(left),
        text(
            f"The cosine of the sum and the word alone is {number(left[0])} without the factor and {number(left[1])} "
            "with it: unscaled, the position dominates the sum.",
            f"相加所得的向量与词向量的余弦，不乘系数时是 {number(left[0])}，乘了是 {number(left[1])}："
            "不缩放时，相加的结果以位置为主。",
        ),
        CLOSING,
    ]


def make_embedding(size: int) -> Embedding:
    """The package's layer with a table of its initial distribution."""
    # on the meta device, so that the global generator is not used
    with torch.device("meta"):
        embedding = Embedding(vocab_size=VOCAB_SIZE, hidden_size=size)
    embedding.to_empty(device="cpu")
    embedding.table.weight.data.normal_(std=size**-0.5, generator=make_generator(SEED))
    return embedding


def word_vectors(size: int) -> Float[Tensor, "V size"]:
    """The table."""
    return make_embedding(size).table.weight.data


def scaled_vectors(size: int) -> Float[Tensor, "V size"]:
    """The layer's outputs."""
    vectors: Tensor = make_embedding(size)(torch.arange(VOCAB_SIZE))
    return vectors


def position_vectors(size: int) -> Float[Tensor, "V size"]:
    """The sinusoids."""
    return Sinusoidal(hidden_size=size).encode(torch.arange(VOCAB_SIZE))


def mean_norms(size: int) -> Float[Tensor, " 3"]:
    """Words, scaled words, positions."""
    return torch.stack([rows(size).norm(dim=-1).mean() for rows in (word_vectors, scaled_vectors, position_vectors)])


def norm_question(size: int, norm: float) -> LessonBlock:
    """What is the norm of a word vector?"""
    choices = {"1": 1.0, "√d": math.sqrt(size), "d": float(size)}
    return question(
        both(f"With $d = {size}$, what is the norm of a word vector?", f"$d = {size}$ 时，一个词向量的范数是多少？"),
        [same(f"{name} = {value:.4g}" if name != "1" else name) for name, value in choices.items()],
        # on a logarithmic scale, since the choices differ by factors
        nearest_choice([math.log(value) for value in choices.values()], math.log(norm)),
        both(
            f"Measured: {number(norm)}. The $d$ squares have mean $1/d$ each, whatever $d$ is.",
            f"实测 {number(norm)}。$d$ 个分量的平方平均各为 $1/d$，与 $d$ 的大小无关。",
        ),
    )


def position_question(size: int, norm: float) -> LessonBlock:
    """What is the norm of a position vector?"""
    choices = {"1": 1.0, "√(d/2)": math.sqrt(size / 2), "√d": math.sqrt(size)}
    return question(
        both("And the norm of a sinusoidal position?", "正弦位置向量的范数呢？"),
        [same(f"{name} = {value:.4g}" if name != "1" else name) for name, value in choices.items()],
        nearest_choice([math.log(value) for value in choices.values()], math.log(norm)),
        both(
            f"Measured: {number(norm)}. Each of the $d/2$ pairs of sine and cosine is a point of the unit circle; "
            "often √d is quoted.",
            f"实测 {number(norm)}。$d/2$ 对正弦与余弦，每一对都是单位圆上的点；常有人说成 √d。",
        ),
    )


def sum_question(left: Float[Tensor, " 2"]) -> LessonBlock:
    """In which sum is the word easier to recognise?"""
    return question(
        both(
            "Word plus position: in which sum is the word easier to recognise (a larger cosine with the word)?",
            "词加位置：从哪一个相加的结果里更容易认出词（与词的余弦更大）？",
        ),
        [both("the unscaled word", "不缩放的词"), both("the word times √d", "乘以 √d 的词")],
        int(left.argmax()),
        both(
            f"Cosine {number(left[0])} against {number(left[1])}.",
            f"余弦分别为 {number(left[0])} 与 {number(left[1])}。",
        ),
    )


def chart_of_norms() -> ChartBlock:
    """The three norms by size."""
    doublings = torch.arange(LEAST_DOUBLINGS, MOST_DOUBLINGS + 1)
    norms = torch.stack([mean_norms(2**power) for power in doublings.tolist()])
    labels = (both("word", "词"), both("word times √d", "词乘以 √d"), both("position", "位置"))
    return chart(
        both("Mean norm by size", "平均范数随维度的变化"),
        both("n, of d = 2^n", "n（d = 2^n）"),
        both("norm", "范数"),
        *(series(label, doublings.float(), norms[:, index], points=False) for index, label in enumerate(labels)),
    )


LESSON = LessonEntry(
    title=both("Why embeddings are multiplied by √d", "为什么词嵌入要乘以 √d"),
    summary=both(
        "Norms of words and of sinusoidal positions, measured, and what is left of the word in their sum.",
        "实测词向量与正弦位置向量的范数，以及两者相加后词还剩多少。",
    ),
    controls=CONTROLS,
    build=build,
    code=(Embedding, Sinusoidal),
    experiment="embedding_scale",
)
