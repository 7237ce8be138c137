"""One state, three rules: an RNN, test-time training and attention store the same pairs and recall them."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.masks import causal
from regard.attention.scores import Dot
from regard.layers import BareLinear, GradientLearner
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    chart,
    control,
    formula,
    make_generator,
    matrix,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.schema.pages import ChartBlock, LessonBlock

SIZE, MOST_PAIRS, SEED = 4, 16, 0
RATE = 0.5
"""With unit keys a step of this rate removes the whole error of its pair, since the gradient has a factor 2."""
SHARPNESS = 16.0
NAMES = (same("RNN"), both("TTT", "TTT（测试时训练）"), both("attention", "注意力"))

CONTROLS = (
    control("pairs", both("Stored pairs n", "存入的键值对数 n"), low=2.0, high=float(MOST_PAIRS), step=1.0, value=8.0),
    control(
        "retention",
        both("What the RNN keeps in a step, a", "RNN 每步保留的比例 a"),
        low=0.1,
        high=0.9,
        step=0.1,
        value=0.7,
    ),
)

INTRODUCTION = text(
    "Every model of sequences keeps a state: it has an initial value, an update rule for each token and an output "
    "rule. Three of them store pairs of a key and a value, and then recall every value by its key. Each is the "
    f"smallest form of its kind, without training: keys have size {SIZE} and norm 1, values are -1 or 1.",
    "任何序列模型都有一个状态：它有初始值，每读入一个词元按更新规则改变，再由输出规则得出结果。"
    "下面三种都先存入若干键值对，再用每个键取回它的值。每一种都是最小的形式，没有经过训练："
    f"键是 {SIZE} 维单位向量，值是 -1 或 1。",
)
RULES = formula(
    r"\begin{array}{lll} "
    r"\mathrm{RNN} & h_0 = 0 & h_t = a\,h_{t-1} + (1 - a)\,v_t, \quad o = h_t \\ "
    r"\mathrm{TTT} & W_0 = 0 & W_t = W_{t-1} - \eta \nabla |W_{t-1} k_t - v_t|^2, \quad o = W_t\, q \\ "
    r"\mathrm{attention} & S_0 = () & S_t = (S_{t-1}, (k_t, v_t)), \quad "
    r"o = \sum_j \mathrm{softmax}_j(q \cdot k_j)\, v_j "
    r"\end{array}"
)
CLOSING = text(
    "The RNN compresses everything into one vector, and this form does not use the key. TTT compresses it into the "
    "weights of a small model, whose size is fixed as well but larger. Attention keeps a list, the key-value cache: "
    "nothing is lost, and memory and time grow with the length.",
    "RNN 把一切压缩进一个向量，这种最小形式不使用键。TTT 把一切压缩进一个小模型的权重，大小也固定，但比向量大。"
    "注意力保存一个列表，即键值缓存：什么都不丢，但内存和时间随长度增长。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """States, errors of recall, and the first pair by the number of pairs."""
    pairs, retention = int(settings["pairs"]), settings["retention"]
    # after all are stored
    errors = recall_errors(pairs, retention)[..., -1]
    return [
        INTRODUCTION,
        RULES,
        size_question(pairs),
        matrix(
            both(f"Numbers in the state after n = {pairs} pairs", f"存入 n = {pairs} 对之后，状态里有多少个数"),
            NAMES,
            (both("numbers", "个数"),),
            state_sizes(pairs)[:, None],
        ),
        recall_question(errors),
        matrix(
            both("Squared error of every recalled value", "取回的每个值的平方误差"),
            NAMES,
            [both(f"pair {index + 1}", f"第 {index + 1} 对") for index in range(pairs)],
            errors,
        ),
        chart_of_first(retention),
        text(
            f"With {pairs} pairs the mean errors are {number(errors[0].mean())} (RNN), {number(errors[1].mean())} "
            f"(TTT) and {number(errors[2].mean())} (attention). The matrix of TTT holds {SIZE} orthogonal keys "
            "exactly; a key that is stored later changes what it overlaps with.",
            f"存入 {pairs} 对时，平均误差为 RNN {number(errors[0].mean())}、TTT {number(errors[1].mean())}、"
            f"注意力 {number(errors[2].mean())}。TTT 的矩阵能精确存下 {SIZE} 个正交的键；"
            "之后存入的键会改变与它重叠的部分。",
        ),
        CLOSING,
    ]


def draw_pairs(pairs: int) -> tuple[Float[Tensor, "N size"], Float[Tensor, "N size"]]:
    """Keys, the first of them orthogonal, and values."""
    generator = make_generator(SEED)
    others = F.normalize(torch.randn(MOST_PAIRS, SIZE, generator=generator), dim=-1)
    values = torch.randint(0, 2, (MOST_PAIRS, SIZE), generator=generator) * 2.0 - 1
    return torch.cat([torch.eye(SIZE), others])[:pairs], values[:pairs]


def recall_errors(pairs: int, retention: float) -> Float[Tensor, "3 N T"]:
    """The mean squared error of recalling each pair after 1, 2, .. T pairs are stored."""
    keys, values = draw_pairs(pairs)
    recalled = (
        run_recurrent(values, retention).expand(pairs, -1, -1),
        run_ttt(keys, values),
        run_attention(keys, values),
    )
    return torch.stack([(rows - values[:, None]).square().mean(dim=-1) for rows in recalled])


def run_recurrent(values: Float[Tensor, "T size"], retention: float) -> Float[Tensor, "T size"]:
    """The state after each pair: the answer to every query."""
    state, states = torch.zeros(SIZE), []
    for value in values:
        state = retention * state + (1 - retention) * value
        states.append(state)
    return torch.stack(states)


def run_ttt(keys: Float[Tensor, "T size"], values: Float[Tensor, "T size"]) -> Float[Tensor, "N T size"]:
    """The predictions for each key of a linear model that takes one gradient step for each pair."""
    pairs = len(keys)
    # on the meta device, so that no random numbers are drawn
    with torch.device("meta"):
        model = BareLinear(num_heads=1, head_size=SIZE)
        learner = GradientLearner(model=model, num_heads=1, head_size=SIZE, mini_batch=1)
    learner.to_empty(device="cpu")
    for parameter in learner.parameters():
        # W_0 = 0, and steps without a learned scale
        parameter.data.zero_()
    # (N, 1, T, size): an element of the batch for each query, one head
    inputs, targets = (rows.expand(pairs, 1, -1, -1) for rows in (keys, values))
    rates = torch.full((pairs, 1, pairs), RATE)
    outputs: Tensor = learner.update(queries_of(keys)[:, None], inputs, targets, rates, learner.start(pairs)).outputs
    return outputs[:, 0]


def run_attention(keys: Float[Tensor, "T size"], values: Float[Tensor, "T size"]) -> Float[Tensor, "N T size"]:
    """The context of each key over the list of pairs so far."""
    return attend(SHARPNESS * queries_of(keys), keys, values, score=Dot(), mask=causal()).context


def queries_of(keys: Float[Tensor, "T size"]) -> Float[Tensor, "N T size"]:
    """Each key as the query of every position."""
    return keys[:, None].expand(-1, len(keys), -1)


def state_sizes(pairs: int) -> Float[Tensor, " 3"]:
    """A vector, a matrix, a list of keys and values."""
    keys, values = draw_pairs(pairs)
    return torch.tensor([float(SIZE), float(SIZE**2), float(keys.numel() + values.numel())])


def size_question(pairs: int) -> LessonBlock:
    """Whose state grows?"""
    grows = (state_sizes(pairs) != state_sizes(pairs - 1)).tolist()
    return question(
        both("Which of the three states grows with every token?", "三种状态里，哪一种随词元数增长？"),
        [*NAMES, both("none", "都不增长")],
        grows.index(True) if any(grows) else len(NAMES),
        both(
            f"At n = {pairs}: {', '.join(f'{size:g}' for size in state_sizes(pairs).tolist())} numbers.",
            f"n = {pairs} 时分别有 {'、'.join(f'{size:g}' for size in state_sizes(pairs).tolist())} 个数。",
        ),
    )


def recall_question(errors: Float[Tensor, "3 N"]) -> LessonBlock:
    """Which of them recalls the first pair best?"""
    first = errors[:, 0]
    # up to the rounding of the page
    is_tie = abs(float(first[1] - first[2])) < 0.005 and float(first[0]) > float(first[1])
    best = len(NAMES) if is_tie else int(first.argmin())
    return question(
        both("Which of them recalls the first pair best?", "哪一种取回第一对最准确？"),
        [*NAMES, both("TTT and attention alike", "TTT 与注意力一样好")],
        best,
        both(
            f"Squared errors: {', '.join(map(number, first))}. A value of 0 for every number would have error 1.",
            f"平方误差：{'、'.join(map(number, first))}。每个数都猜 0，误差就是 1。",
        ),
    )


def chart_of_first(retention: float) -> ChartBlock:
    """The error of the first pair by the number of pairs."""
    counts = torch.arange(1, MOST_PAIRS + 1)
    first = recall_errors(MOST_PAIRS, retention)[:, 0]
    return chart(
        both("Error of the first pair by the number of pairs", "第一对的误差随键值对数的变化"),
        both("pairs n", "键值对数 n"),
        both("squared error", "平方误差"),
        *(series(name, counts, first[index], points=False) for index, name in enumerate(NAMES)),
    )


LESSON = LessonEntry(
    title=both("One state, three rules: RNN, TTT, attention", "一个状态，三种规则：RNN、TTT、注意力"),
    summary=both(
        "Initial state, update and output of each, and how well each recalls what it has stored.",
        "各自的初始状态、更新规则与输出规则，以及取回所存内容的准确程度。",
    ),
    controls=CONTROLS,
    build=build,
    code=(GradientLearner, BareLinear, attend),
    experiment="one_state_three_rules",
)
