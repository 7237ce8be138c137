"""One state, three rules: a sequence model is an initial state, an update and an output, and differs in the state.

    RNN               state h, a vector              h_t = GRU(x_t, h_{t-1})                 output h_t
    test-time train.  state W, weights of a model    W_t = W_{t-1} - eta grad loss(W; x_t)   output f(W_Q x_t; W_t)
    linear attention  state S, a matrix              S_t = S_{t-1} + phi(k_t) v_t^T          output phi(q_t) S_t
    attention         state K, V, a list             append k_t and v_t                      output softmax(q_t K) V

Sun et al. 2024, figure 4. https://arxiv.org/abs/2407.04620
The claim: a vector of fixed size loses what it compresses, weights of fixed size hold more, a list loses nothing and
grows. The task is recall: pairs of a key and a value, then keys, whose values are asked for. All rules have about the
same number of parameters, and the numbers in their state are counted. Refuted if the vector recalls as much as the
weights or the list, or if the list's recall falls as the pairs become more.
Recall as a test of states: Arora et al. 2023. https://arxiv.org/abs/2312.04927
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import GrowingCache, MultiHeadAttention
from regard.attention.masks import causal
from regard.contracts import Title, leaves
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, is_above
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, line, logarithmic, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.sizes import num_parameters
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit
from regard.layers import TTT, GradientLearner, LinearAttention, NormedLinear
from regard.tasks import count_parameters, equal_size

TITLE = Title(en="One state, three rules", zh="一个状态，三种规则")
CLAIM = Title(
    en=(
        "Every sequence model has an initial state, an update and an output: a vector (RNN) forgets, weights "
        "(TTT, linear attention) of fixed size hold more, and attention's list holds everything but grows."
    ),
    zh=(
        "任何序列模型都由初始状态、更新规则和输出规则组成：向量（RNN）会遗忘，大小固定的权重（TTT、线性注意力）能存得更多，"
        "注意力的列表什么都不丢，但会增长。"
    ),
)
CHINESE = {
    "rule": "规则",
    "numbers in the state": "状态中数的个数",
    "pairs": "键值对数",
    "recall": "取回正确率",
    "linear attention": "线性注意力",
    "attention": "注意力",
    "Recall against the number of pairs": "取回正确率随键值对数的变化",
    "Recall of {} pairs against the size of the state": "{} 个键值对的取回正确率随状态大小的变化",
    "pairs of key and value": "键值对数",
    "share of right values": "正确率",
    "chance": "随机水平",
}


class GRURule(nn.Module):
    """The state is a vector."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gru = nn.GRU(size, size, batch_first=True)

    def forward(self, states: Float[Tensor, "B T size"]) -> tuple[Float[Tensor, "B T size"], Any]:
        """The outputs, and the state after the last."""
        outputs, state = self.gru(states)
        return outputs, state


class TTTRule(nn.Module):
    """The state is the weights of a linear model, and the gradient of the mini-batch that is not yet full."""

    def __init__(self, size: int) -> None:
        super().__init__()
        learner = GradientLearner(
            model=NormedLinear(num_heads=1, head_size=size), num_heads=1, head_size=size, mini_batch=8
        )
        self.layer = TTT(hidden_size=size, num_heads=1, learner=learner)

    def forward(self, states: Float[Tensor, "B T size"]) -> tuple[Float[Tensor, "B T size"], Any]:
        """The outputs, and the state after the last."""
        output = self.layer(states, self.layer.start(len(states)))
        return output.outputs, output.state


class LinearRule(nn.Module):
    """The state is a matrix and the sum of the keys' features."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = LinearAttention(size, 1)

    def forward(self, states: Float[Tensor, "B T size"]) -> tuple[Float[Tensor, "B T size"], Any]:
        """The outputs, and the state after the last."""
        attended = self.layer(states)
        return attended.context, attended.state


class AttentionRule(nn.Module):
    """The state is the list of all keys and values."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = MultiHeadAttention(size, 1)

    def forward(self, states: Float[Tensor, "B T size"]) -> tuple[Float[Tensor, "B T size"], Any]:
        """The outputs, and the state after the last."""
        attended = self.layer(states, mask=causal(), cache=GrowingCache())
        assert attended.cache is not None
        # without the room that the cache has for more
        return attended.context, (attended.cache.keys, attended.cache.values)


RULES: dict[str, type[nn.Module]] = {
    "RNN": GRURule,
    "linear attention": LinearRule,
    "TTT": TTTRule,
    "attention": AttentionRule,
}
FULL = {"repeats": 5, "steps": 1000, "sizes": (8, 16, 32, 64), "pairs": (4, 8, 16, 32, 64), "num_symbols": 128}
WEIGHTS = ("linear attention", "TTT")
NUM_QUERIES = 8


@dataclass(frozen=True)
class Recall:
    """Pairs, then keys whose values are asked for; the value EMPTY stands where there is none."""

    keys: Int[Tensor, "B L"]
    values: Int[Tensor, "B L"]
    answers: Int[Tensor, "B Q"]


EMPTY = 0


def draw_recall(count: int, *, pairs: int, num_symbols: int, num_values: int) -> Recall:
    """Every key once with a random value, then a few of the keys in random order."""
    # distinct keys: the first of a random permutation of all symbols
    keys = torch.rand(count, num_symbols).argsort(dim=1)[:, :pairs]
    values = torch.randint(1, num_values + 1, (count, pairs))
    requests = torch.randint(pairs, (count, NUM_QUERIES))
    empty = torch.full_like(requests, EMPTY)
    return Recall(
        keys=torch.cat([keys, keys.gather(1, requests)], dim=1),
        values=torch.cat([values, empty], dim=1),
        answers=values.gather(1, requests) - 1,
    )


class RecallModel(nn.Module):
    """Embeddings of key and value, one rule, and a readout of the value."""

    def __init__(self, rule: str, size: int, *, num_symbols: int, num_values: int) -> None:
        super().__init__()
        self.keys, self.values = nn.Embedding(num_symbols, size), nn.Embedding(num_values + 1, size)
        self.rule = RULES[rule](size)
        self.norm, self.readout = nn.LayerNorm(size), nn.Linear(size, num_values)

    def forward(self, task: Recall) -> tuple[Float[Tensor, "B Q values"], Any]:
        """Logits of the values that are asked for, and the state at the end."""
        states = self.keys(task.keys) + self.values(task.values)
        outputs, state = self.rule(states)
        last = slice(-NUM_QUERIES, None)
        return self.readout(self.norm((states + outputs)[:, last])), state


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """A trained rule: its parameters, and by the number of pairs its recall and the numbers in its state."""

    parameters: int
    recall: dict[int, float]
    numbers: dict[int, int]


Results = Mapping[tuple[str, int], Sequence[Recalled]]
"""By rule and size of attention, to whose parameters those of the other rules are equal; one per seed."""


@dataclass(frozen=True, kw_only=True)
class RecallTask:
    """The numbers of pairs in training and test, of keys and of values."""

    pairs: tuple[int, ...]
    num_symbols: int
    num_values: int

    def draw(self, count: int, pairs: int) -> Recall:
        return draw_recall(count, pairs=pairs, num_symbols=self.num_symbols, num_values=self.num_values)

    def build(self, rule: str, size: int) -> RecallModel:
        return RecallModel(rule, size, num_symbols=self.num_symbols, num_values=self.num_values)

    def train_and_test(self, seed: int, rule: str, size: int, *, steps: int) -> Recalled:
        """Train on all numbers of pairs, then measure each."""
        with seeded(seed):
            model = self.build(rule, size)

            def loss_of(step: int) -> Tensor:
                task = self.draw(32, self.pairs[step % len(self.pairs)])
                return F.cross_entropy(model(task)[0].flatten(0, 1), task.answers.flatten())

            fit(model, loss_of, steps=steps, learning_rate=1e-2)
            recall, numbers = {}, {}
            for pairs in self.pairs:
                task = self.draw(250, pairs)
                with torch.no_grad():
                    logits, state = model(task)
                recall[pairs] = (logits.argmax(dim=-1) == task.answers).double().mean().item()
                # of one element of the batch; counters are not numbers of the state
                numbers[pairs] = sum(part.numel() for part in leaves(state) if part.is_floating_point()) // 250
        return Recalled(parameters=count_parameters(model), recall=recall, numbers=numbers)


def run(
    *,
    seed: int = 0,
    repeats: int = 3,
    steps: int = 300,
    sizes: Sequence[int] = (8, 16, 32),
    pairs: Sequence[int] = (4, 8, 16, 32),
    num_symbols: int = 64,
    num_values: int = 8,
) -> Finding:
    """Train every rule at several numbers of parameters, equal for all rules."""
    task = RecallTask(pairs=tuple(pairs), num_symbols=num_symbols, num_values=num_values)
    results = {}
    for size in sizes:
        goal = num_parameters(task.build, "attention", size)
        for rule in RULES:
            equal = equal_size(goal, partial(num_parameters, task.build, rule), max_size=4 * size)
            seeds = range(1000 * seed, 1000 * seed + repeats)
            results[rule, size] = [task.train_and_test(one, rule, equal, steps=steps) for one in seeds]
    rows: list[Row] = [
        {
            "rule": rule,
            "parameters": runs[0].parameters,
            "pairs": number,
            "numbers in the state": runs[0].numbers[number],
            "recall": Measured.of(run.recall[number] for run in runs),
        }
        for (rule, _), runs in results.items()
        for number in pairs
    ]
    holds, verdict = judge(results, sizes[-1], pairs)
    return Finding(
        name="one_state_three_rules",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, results=results, pairs=pairs, chance=1 / num_values),
    )


def judge(results: Results, size: int, pairs: Sequence[int]) -> tuple[bool | None, Title]:
    """At the largest size: weights recall more than a vector, a list more than a vector and nearly everything."""
    most, fewest = pairs[-1], pairs[0]
    recall = {rule: [run.recall[most] for run in results[rule, size]] for rule in RULES}
    numbers = {rule: [results[rule, size][0].numbers[number] for number in (fewest, most)] for rule in RULES}
    parts = {f"{rule} above RNN": is_above(recall[rule], recall["RNN"]) for rule in (*WEIGHTS, "attention")}
    # nine in ten of what it had with the fewest pairs
    threshold = [0.9 * run.recall[fewest] for run in results["attention", size]]
    parts["attention loses nothing"] = is_above(recall["attention"], threshold)
    parts["attention grows"] = numbers["attention"][1] > numbers["attention"][0]
    parts["the others do not"] = all(first == last for rule, (first, last) in numbers.items() if rule != "attention")
    english = [f"{rule} {Measured.of(recall[rule])} with {numbers[rule][1]} numbers in its state" for rule in RULES]
    chinese = [
        f"{CHINESE.get(rule, rule)} {Measured.of(recall[rule])}（状态有 {numbers[rule][1]} 个数）" for rule in RULES
    ]
    words = {True: "clearly more", False: "clearly less", None: "not clearly more"}
    words_zh = {True: "明显更高", False: "明显更低", None: "没有明显更高"}
    others = (*WEIGHTS, "attention")
    compared = ", ".join(f"{rule} {words[parts[f'{rule} above RNN']]}" for rule in others)
    compared_zh = "，".join(f"{CHINESE.get(rule, f'{rule} ')}{words_zh[parts[f'{rule} above RNN']]}" for rule in others)
    state = numbers["attention"]
    keeps = parts["attention loses nothing"]
    return all_of(*parts.values()), Title(
        en=(
            f"Recall of {most} pairs at equal parameters: {', '.join(english)}. Compared with the RNN, recall is with "
            f"{compared}. From {fewest} "
            f"to {most} pairs attention's state grows from {state[0]} to {state[1]} numbers and it "
            f"{'forgets nothing' if keeps else 'does not clearly keep all'}."
        ),
        zh=(
            f"参数量相等时取回 {most} 个键值对的正确率：{'，'.join(chinese)}。与 RNN 相比：{compared_zh}。"
            f"键值对从 {fewest} 个增加到 {most} 个，注意力的状态从 {state[0]} 个数增长到 {state[1]} 个，"
            f"它{'没有遗忘' if keeps else '未能明确保住全部内容'}。"
        ),
    )


def draw_figure(figure: Any, *, results: Results, pairs: Sequence[int], chance: float) -> None:
    """Recall against the number of pairs at the largest size, and against the size of the state."""
    left, right = panels(figure, CLAIM, 2)
    sizes = list(dict.fromkeys(size for _, size in results))
    for rule, colour in zip(RULES, (ORANGE, GREEN, PURPLE, BLUE), strict=True):
        largest = results[rule, sizes[-1]]
        line(left, pairs, [Measured.of(run.recall[number] for run in largest) for number in pairs], colour)
        numbers = [results[rule, size][0].numbers[pairs[-1]] for size in sizes]
        line(
            right,
            numbers,
            [Measured.of(run.recall[pairs[-1]] for run in results[rule, size]) for size in sizes],
            colour,
        )
        # an empty line gives the legend an entry without error bars
        right.plot([], [], color=colour, label=label(rule))
    right.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="upper left")
    for axes in (left, right):
        axes.axhline(chance, color=GREY, linestyle=":", zorder=0)
        axes.set_ylim(0, 1.05)
    left.text(pairs[0], chance + 0.02, label("chance"), color=GREY, fontsize=9)
    logarithmic(left, x=list(pairs))
    right.set_xscale("log")
    style_axes(left, title="Recall against the number of pairs", x="pairs of key and value", y="share of right values")
    heading = label("Recall of {} pairs against the size of the state").format(pairs[-1])
    style_axes(right, title=heading, x="numbers in the state", y="share of right values")
