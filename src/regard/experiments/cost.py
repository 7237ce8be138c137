"""Time and memory against length, for a whole text and for one more token.

    whole text of n tokens                       time    memory
    attention, weights formed (plain)            n^2     n^2
    attention, fused                             n^2     n          Rabe and Staats 2021. https://arxiv.org/abs/2112.05682
    attention within a window of w tokens        n w     n
    linear attention, RNN                        n       n
    next token after n
    attention with a cache of keys and values    n       n
    linear attention, RNN                        1       1

Measured in this process on one thread, as each runs by default; in every turn the exponent is fitted to the three
largest lengths of a computation, where fixed costs matter least. Refuted if an exponent is on the wrong side of its
bound: 1.5 between linear and quadratic, 0.5 between constant and linear.
Vaswani et al. 2017, table 1. https://arxiv.org/abs/1706.03762
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import FixedCache, MultiHeadAttention
from regard.attention.masks import causal, window
from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, is_above
from regard.experiments.lib.drawing import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    line,
    logarithmic,
    panels,
    style_axes,
)
from regard.experiments.lib.finding import Finding, Measured, Row, slope
from regard.experiments.lib.memory import peak_bytes, state_bytes
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.timing import interleaved, median_of
from regard.layers import LinearAttention

TITLE = Title(en="Cost against length", zh="代价随长度的变化")
CLAIM = Title(
    en=(
        "Attention over a text takes quadratic time, and quadratic memory unless it is fused; a window or linear "
        "attention makes both linear. A token with a cache costs more the longer the text; with an RNN it costs the "
        "same."
    ),
    zh=(
        "注意力处理整段文本的时间是平方级的，不用融合算子时内存也是平方级的；窗口或线性注意力使两者变为线性。"
        "使用缓存时，文本越长，每个词元的代价越大；RNN 每个词元的代价不变。"
    ),
)
CHINESE = {
    "computation": "计算方式",
    "largest length": "最大长度",
    "time (ms)": "时间（毫秒）",
    "time grows as n to the": "时间的增长指数",
    "memory (MB)": "内存（兆字节）",
    "memory grows as n to the": "内存的增长指数",
    "plain": "显式算出权重",
    "fused": "融合算子",
    "windowed": "窗口注意力",
    "linear": "线性注意力",
    "cached step": "使用缓存的一步",
    "linear step": "线性注意力的一步",
    "RNN step": "RNN 的一步",
    "Time for a whole text": "处理整段文本的时间",
    "Memory for a whole text": "处理整段文本的内存",
    "Time for the next token": "处理下一个词元的时间",
    "tokens": "词元数",
    "tokens before it": "之前的词元数",
    "milliseconds": "毫秒",
    "megabytes": "兆字节",
}
WINDOW = 64
WHOLE, STEPS = ("plain", "fused", "windowed", "linear", "RNN"), ("cached step", "linear step", "RNN step")
QUADRATIC, GROWING = 1.5, 0.5
"""Bounds of the exponents: above is quadratic and not linear; above is growing and not constant."""

GROWS_ABOVE = {"plain": (QUADRATIC, QUADRATIC), "fused": (QUADRATIC, None), "cached step": (GROWING, GROWING)}
STAYS_BELOW = {
    "fused": (None, QUADRATIC),
    "windowed": (QUADRATIC, QUADRATIC),
    "linear": (QUADRATIC, QUADRATIC),
    "RNN": (QUADRATIC, QUADRATIC),
    "linear step": (GROWING, GROWING),
    "RNN step": (GROWING, GROWING),
}
"""The bounds of the exponents of time and memory by which the claim is judged."""

FULL = {
    "lengths": {
        "plain": (512, 1024, 2048, 4096),
        "fused": (2048, 4096, 8192, 16384),
        "windowed": (8192, 16384, 32768, 65536),
        "linear": (2048, 4096, 8192, 16384, 32768),
        "RNN": (512, 1024, 2048, 4096),
        "steps": (4096, 16384, 65536, 131072),
    },
    "turns": 9,
}
LENGTHS = {
    "plain": (256, 512, 1024, 2048),
    "fused": (1024, 2048, 4096, 8192),
    # below about 4000 tokens the default is a mask over all pairs, which is not slower there
    "windowed": (4096, 8192, 16384),
    "linear": (512, 1024, 2048, 4096, 8192, 16384),
    "RNN": (256, 512, 1024, 2048),
    "steps": (4096, 16384, 65536),
}
NUM_STEPS, CALLS = 20, 2
"""Steps in a call, since a single one is short, and calls in a turn."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One computation: seconds per turn at every length, and bytes."""

    lengths: list[int]
    seconds: list[list[float]]
    memory: list[int]

    @property
    def time_exponents(self) -> list[float]:
        """The exponent of time in every turn, by the three largest lengths."""
        return [slope(self.lengths[-3:], turn[-3:]) for turn in zip(*self.seconds, strict=True)]

    @property
    def memory_exponent(self) -> float:
        """The exponent of memory; it has no spread."""
        return slope(self.lengths[-3:], self.memory[-3:])

    @property
    def milliseconds(self) -> list[Measured]:
        """The median time at every length."""
        return [median_of([1e3 * value for value in values]) for values in self.seconds]


@dataclass(frozen=True, kw_only=True)
class Layers:
    """A layer of every kind, of one size."""

    attention: MultiHeadAttention
    linear: LinearAttention
    rnn: nn.GRU

    @classmethod
    def of(cls, size: int, num_heads: int) -> "Layers":
        """Random layers."""
        attention, linear = MultiHeadAttention(size, num_heads).eval(), LinearAttention(size, num_heads)
        return cls(attention=attention, linear=linear, rnn=nn.GRU(size, size, batch_first=True))

    def whole(self, name: str, states: Float[Tensor, "1 L size"]) -> Callable[[], object]:
        """The computation of a whole text."""
        return {
            "plain": partial(self.attention, states, mask=causal(), return_weights=True),
            "fused": partial(self.attention, states, mask=causal()),
            "windowed": partial(self.attention, states, mask=causal() & window(WINDOW - 1)),
            "linear": partial(self.linear, states),
            "RNN": partial(self.rnn, states),
        }[name]

    def step(self, name: str, states: Float[Tensor, "1 L size"], room: int) -> "Steps":
        """Steps after a text; a cache has room for this many."""
        if name == "cached step":
            # keys and values at random: only their number matters, and computing them takes quadratic time
            heads = (1, self.attention.num_heads, states.shape[1], self.attention.head_size)
            cache = FixedCache(capacity=states.shape[1] + room).append(torch.randn(heads), torch.randn(heads))
            return Steps(lambda token, state: self.attention(token, cache=state).cache, cache, states[:, :1])
        if name == "linear step":
            advance = self.linear
            return Steps(lambda token, state: advance(token, state).state, advance(states).state, states[:, :1])
        return Steps(lambda token, state: self.rnn(token, state)[1], self.rnn(states)[1], states[:, :1])


class Steps:
    """One token after another; the state is carried, so that a cache grows by what is appended."""

    def __init__(self, advance: Callable[[Tensor, Any], Any], state: Any, token: Float[Tensor, "1 1 size"]) -> None:
        self.advance, self.state, self.token = advance, state, token

    def __call__(self) -> None:
        """Several steps."""
        for _ in range(NUM_STEPS):
            self.state = self.advance(self.token, self.state)


def run(
    *,
    seed: int = 0,
    turns: int = 5,
    size: int = 64,
    num_heads: int = 4,
    lengths: Mapping[str, Sequence[int]] = LENGTHS,
) -> Finding:
    """Time all computations in turns, at their lengths, and measure their memory."""
    with seeded(seed), torch.no_grad():
        layers = Layers.of(size, num_heads)
        whole = {
            (name, length): layers.whole(name, torch.randn(1, length, size))
            for name in WHOLE
            for length in lengths[name]
        }
        steps = {
            (name, length): layers.step(name, torch.randn(1, length, size), CALLS * NUM_STEPS * turns)
            for name in STEPS
            for length in lengths["steps"]
        }
        memory = peak_bytes(whole) | {key: state_bytes(step.state) for key, step in steps.items()}
        seconds = interleaved({**whole, **steps}, turns=turns, calls=CALLS)
    costs = {
        name: Cost(
            lengths=list(lengths.get(name, lengths["steps"])),
            seconds=[
                # of one step
                [value / (NUM_STEPS if name in STEPS else 1) for value in seconds[name, length]]
                for length in lengths.get(name, lengths["steps"])
            ],
            memory=[memory[name, length] for length in lengths.get(name, lengths["steps"])],
        )
        for name in (*WHOLE, *STEPS)
    }
    holds, verdict = judge(costs)
    rows = tuple(row_of(name, cost) for name, cost in costs.items())
    draw = partial(draw_figure, costs=costs)
    return Finding(name="cost", claim=CLAIM, rows=rows, verdict=verdict, holds=holds, draw=draw)


def row_of(name: str, cost: Cost) -> Row:
    """One computation at its largest length, and how it got there."""
    return {
        "computation": name,
        "largest length": cost.lengths[-1],
        "time (ms)": cost.milliseconds[-1],
        "time grows as n to the": median_of(cost.time_exponents),
        "memory (MB)": cost.memory[-1] / 1e6,
        "memory grows as n to the": cost.memory_exponent,
    }


def judge(costs: Mapping[str, Cost]) -> tuple[bool | None, Title]:
    """Every exponent is clearly on its side of the bound; those of time by their spread over the turns."""
    outcomes: dict[str, bool | None] = {}
    for bounds, is_upper in ((GROWS_ABOVE, False), (STAYS_BELOW, True)):
        for name, (time_bound, memory_bound) in bounds.items():
            exponents = costs[name].time_exponents
            if time_bound is not None:
                limit = [time_bound] * len(exponents)
                outcomes[f"{name}, time"] = is_above(limit, exponents) if is_upper else is_above(exponents, limit)
            if memory_bound is not None:
                outcomes[f"{name}, memory"] = (costs[name].memory_exponent < memory_bound) is is_upper
    english, chinese = [], []
    for names, begin, begin_zh in (
        (WHOLE, "Over a text of n", "处理 n 个词元的文本"),
        (STEPS, "After n", "在 n 个词元之后"),
    ):
        texts = [
            (name, f"{median_of(costs[name].time_exponents).mean:.2f}", f"{costs[name].memory_exponent:.2f}")
            for name in names
        ]
        english.append(f"{begin} tokens: " + ", ".join(f"{n} time n^{t}, memory n^{m}" for n, t, m in texts) + ".")
        parts = [f"{CHINESE.get(n, n)}，时间 n^{t}、内存 n^{m}" for n, t, m in texts]
        chinese.append(f"{begin_zh}：" + "；".join(parts) + "。")
    wrong = [name for name, outcome in outcomes.items() if outcome is False]
    number = list(outcomes.values()).count(True)
    english.append(f"{number} of {len(outcomes)} exponents are clearly on the side of the claim")
    english[-1] += f"; on the other side: {'; '.join(wrong)}." if wrong else "."
    chinese.append(f"{len(outcomes)} 个指数中有 {number} 个明显符合这个说法")
    kinds = {"time": "时间", "memory": "内存"}
    pairs = [one.rsplit(", ", 1) for one in wrong]
    names_zh = "、".join(f"{CHINESE.get(name, name)}（{kinds[kind]}）" for name, kind in pairs)
    chinese[-1] += f"；不符合的有：{names_zh}。" if wrong else "。"
    return all_of(*outcomes.values()), Title(en=" ".join(english), zh="".join(chinese))


def draw_figure(figure: Any, *, costs: Mapping[str, Cost]) -> None:
    """Time and memory of a whole text, and the time of the next token."""
    colours = dict(zip((*WHOLE, *STEPS), (PURPLE, BLUE, GREEN, ORANGE, BLACK, BLUE, ORANGE, BLACK), strict=True))
    time, memory, step = panels(figure, CLAIM, 3)
    for axes, names in ((time, WHOLE), (memory, WHOLE), (step, STEPS)):
        for name in names:
            cost, colour = costs[name], colours[name]
            megabytes = [Measured(value / 1e6, 0.0) for value in cost.memory]
            line(axes, cost.lengths, megabytes if axes is memory else cost.milliseconds, colour)
            # an empty line gives the legend an entry without error bars
            axes.plot([], [], color=colour, label=label(name))
        # the curves begin and end at different lengths, so that a legend is clearer than labels
        axes.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="upper left")
        lengths = sorted({length for name in names for length in costs[name].lengths})
        # every other length, counted from the largest
        logarithmic(axes, x=lengths[::-2][::-1] if len(lengths) > 4 else lengths, y=True)
        # room for the legend
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** 0.4)
    style_axes(time, title="Time for a whole text", x="tokens", y="milliseconds")
    style_axes(memory, title="Memory for a whole text", x="tokens", y="megabytes")
    style_axes(step, title="Time for the next token", x="tokens before it", y="milliseconds")
