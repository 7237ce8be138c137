"""Separate keys and values: does a model gain if what is compared and what is passed on are projected separately?

    K = V = X         softmax((W_q x) X) X            one vector is compared and passed on
    K = V = W X       softmax((W_q x) (W X)) W X      as it is after one projection
    separate          softmax((W_q x) (W_k X)) W_v X  the usual form

The claim of a lecture's notes: X is split into keys and values because that gives the network more freedom. With one
head it gives no more functions: W_q and W_k act only as their product, and W_v only with W_o after it. With several
heads each of these products has a rank of its own, and the forms differ. Equal numbers of parameters, by the hidden
size. Refuted if separate projections are not clearly better than K = V = X, with one head or with several.
Vaswani et al. 2017, section 3.2.2. https://arxiv.org/abs/1706.03762
Split outputs as keys and values: Daniluk et al. 2017. https://arxiv.org/abs/1702.04521
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from regard.attention import MultiHeadAttention
from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, is_above
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, label_point, line, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.lookup import LookupResult, LookupSystem, LookupTask, MakeAttention, without_projections

TITLE = Title(en="Separate keys and values", zh="键与值分开")
CLAIM = Title(
    en="Separate projections of keys and values are better than attending to X itself as keys and values, K = V = X.",
    zh="键和值各用一个投影，优于直接以 X 同时作键和值（K = V = X）。",
)
CHINESE = {
    "form": "形式",
    "heads": "头数",
    "accuracy": "准确率",
    "separate": "分开",
    "Answers by content, at equal parameters (bars: spread)": "按内容回答，参数量相等（误差棒：标准差）",
    "number of heads": "头数",
    "share of right answers": "正确率",
    "chance": "随机水平",
}


def shared_projection(hidden_size: int, num_heads: int) -> MultiHeadAttention:
    """One projection for keys and values."""
    attention = MultiHeadAttention(hidden_size, num_heads)
    # the same module twice: its parameters count once
    attention.key_proj = attention.value_proj
    return attention


def no_projection(hidden_size: int, num_heads: int) -> MultiHeadAttention:
    """The states themselves are keys and values; each head takes its slice of them."""
    return without_projections(MultiHeadAttention(hidden_size, num_heads), "key_proj", "value_proj")


FORMS: dict[str, MakeAttention] = {
    "K = V = X": no_projection,
    "K = V = W X": shared_projection,
    "separate": MultiHeadAttention,
}
UNPROJECTED, _, SEPARATE = FORMS
MARGIN = 0.02
"""A difference in accuracy that does not matter."""

Results = Mapping[tuple[int, str], Sequence[LookupResult]]
"""By number of heads and form; one per seed."""


def run(
    *,
    seed: int = 0,
    repeats: int = 5,
    steps: int = 150,
    hidden_size: int = 24,
    heads: Sequence[int] = (1, 2, 4),
    length: int = 8,
    num_values: int = 8,
) -> Finding:
    """Train every form with every number of heads; all have about the parameters of the separate one."""
    task = LookupTask(length=length, num_values=num_values)
    results = {}
    seeds = range(1000 * seed, 1000 * seed + repeats)
    for num_heads in heads:
        separate = LookupSystem(
            task=task, make=FORMS[SEPARATE], num_heads=num_heads, head_size=hidden_size // num_heads
        )
        for name, make in FORMS.items():
            system = separate.of_equal_size(make)
            results[num_heads, name] = [system.train_and_test(one, "content", steps=steps) for one in seeds]
    rows: list[Row] = [
        {
            "heads": num_heads,
            "form": name,
            "parameters": runs[0].parameters,
            "accuracy": Measured.of(run.accuracy for run in runs),
        }
        for (num_heads, name), runs in results.items()
    ]
    holds, verdict = judge(results)
    return Finding(
        name="separate_values",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, results=results, chance=1 / num_values),
    )


def gains(separate: Sequence[float], other: Sequence[float]) -> bool | None:
    """True if separate is clearly better, False if clearly not by more than the margin."""
    if is_above(separate, other):
        return True
    return False if is_above([value + MARGIN for value in other], separate) else None


def judge(results: Results) -> tuple[bool | None, Title]:
    """Separate projections are clearly better than none, for every number of heads."""
    heads = list(dict.fromkeys(num_heads for num_heads, _ in results))
    outcomes, english, chinese = [], [], []
    words = {True: "clearly better", False: "no better", None: "not clearly better"}
    words_zh = {True: "明显更好", False: "并不更好", None: "没有明显更好"}
    for num_heads in heads:
        accuracy = {name: [run.accuracy for run in results[num_heads, name]] for name in FORMS}
        outcome = gains(accuracy[SEPARATE], accuracy[UNPROJECTED])
        outcomes.append(outcome)
        measured = [str(Measured.of(values)) for values in accuracy.values()]
        english.append(
            f"with {num_heads} {'head' if num_heads == 1 else 'heads'} K = V = X {measured[0]}, one projection "
            f"{measured[1]}, separate {measured[2]}: {words[outcome]}"
        )
        chinese.append(
            f"{num_heads} 个头时，K = V = X 为 {measured[0]}，共用一个投影为 {measured[1]}，"
            f"分开为 {measured[2]}：{words_zh[outcome]}"
        )
    return all_of(*outcomes), Title(
        en=f"Right answers at equal parameters: {'; '.join(english)}.",
        zh=f"参数量相等时的正确率：{'；'.join(chinese)}。",
    )


def draw_figure(figure: Any, *, results: Results, chance: float) -> None:
    """Accuracy against the number of heads."""
    (axes,) = panels(figure, CLAIM, 1)
    heads = list(dict.fromkeys(num_heads for num_heads, _ in results))
    # side by side, since the forms may be equally good
    for shift, (name, colour) in enumerate(zip(FORMS, (ORANGE, GREEN, BLUE), strict=True)):
        values = [Measured.of(run.accuracy for run in results[num_heads, name]) for num_heads in heads]
        places = [place + 0.08 * (shift - 1) for place in range(len(heads))]
        line(axes, places, values, colour)
        label_point(axes, places[-1], values[-1].mean, name, colour)
    axes.axhline(chance, color=GREY, linestyle=":")
    axes.text(-0.2, chance + 0.01, label("chance"), color=GREY, fontsize=9)
    axes.set_xticks(range(len(heads)), [str(number) for number in heads])
    axes.set_xlim(-0.25, len(heads) - 0.4)
    axes.set_ylim(0, 1.08)
    style_axes(
        axes,
        title="Answers by content, at equal parameters (bars: spread)",
        x="number of heads",
        y="share of right answers",
    )
