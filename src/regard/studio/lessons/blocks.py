"""The table entry of a lesson, and helpers to build controls and blocks."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

from regard._utils import check_name, fixed
from regard.attention import attend
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import (
    ChartBlock,
    ChartSeries,
    Control,
    FormulaBlock,
    LessonBlock,
    MatrixBlock,
    QuestionBlock,
    TextBlock,
)


@dataclass(frozen=True, kw_only=True)
class LessonEntry:
    """A lesson: `build(settings)` computes its blocks from a value for every control.

    code: what computes the numbers; the page shows the paths of their files. experiment: the name of the experiment
    that tests the lesson's claim, if there is one; the page links it.
    """

    title: LocalizedText
    summary: LocalizedText
    controls: tuple[Control, ...]
    build: Callable[[Mapping[str, float]], list[LessonBlock]]
    code: tuple[Callable[..., Any], ...]
    experiment: str | None = None


def fill_settings(controls: tuple[Control, ...], settings: Mapping[str, float]) -> dict[str, float]:
    """A value for every control: from the settings, else the control's default."""
    by_name = {control.name: control for control in controls}
    for name, value in settings.items():
        # check_name suggests the nearest name, for which it needs at least one
        if not by_name:
            raise ValueError(f"this lesson has no controls, but {name}={value} was given. Leave it out.")
        check_name(name, by_name, "control")
        check_value(by_name[name], value)
    return {name: float(settings.get(name, control.value)) for name, control in by_name.items()}


def check_value(control: Control, value: float) -> None:
    """Refuse a value outside the range of the control."""
    choices = f"Choose a number from {control.low:g} to {control.high:g}."
    # first: NaN is outside every range, but that message would not explain it
    if not math.isfinite(value):
        raise ValueError(f"{control.name} is {value}, which is not a finite number. {choices}")
    if not control.low <= value <= control.high:
        raise ValueError(f"{control.name} is {value:g}, which is out of range. {choices}")
    # whole steps between whole numbers: a count
    is_whole = all(float(part).is_integer() for part in (control.low, control.step, control.value))
    if is_whole and not float(value).is_integer():
        raise ValueError(f"{control.name} is {value:g}, but it is a count. {choices.replace('number', 'whole number')}")


def both(en: str, zh: str) -> LocalizedText:
    """A text in both languages."""
    return LocalizedText(en=en, zh=zh)


def text(en: str, zh: str) -> TextBlock:
    """A paragraph."""
    return TextBlock(text=both(en, zh))


def formula(tex: str) -> FormulaBlock:
    """A formula as a block."""
    return FormulaBlock(tex=tex)


def control(name: str, label: LocalizedText, *, low: float, high: float, step: float, value: float) -> Control:
    """A slider."""
    return Control(name=name, label=label, low=low, high=high, step=step, value=value)


def matrix(
    title: LocalizedText,
    rows: Sequence[str | LocalizedText],
    columns: Sequence[str | LocalizedText],
    values: Float[Tensor, "rows columns"],
    allowed: Bool[Tensor, "rows columns"] | None = None,
) -> MatrixBlock:
    """A table of numbers with names for rows and columns, in both languages or the same; masked cells are empty."""
    mask = torch.ones_like(values, dtype=torch.bool) if allowed is None else allowed
    cells = [
        # None is an empty cell
        [value if is_allowed else None for value, is_allowed in zip(row, mask_row, strict=True)]
        for row, mask_row in zip(values.tolist(), mask.tolist(), strict=True)
    ]
    names = ([same(name) if isinstance(name, str) else name for name in side] for side in (rows, columns))
    row_names, column_names = names
    return MatrixBlock(title=title, rows=row_names, columns=column_names, values=cells)


def series(
    label: LocalizedText,
    x: Num[Tensor, " N"] | Sequence[float],
    y: Float[Tensor, " N"] | Sequence[float],
    *,
    points: bool,
) -> ChartSeries:
    """One curve, or its points alone."""
    return ChartSeries(label=label, x=[float(value) for value in x], y=[float(value) for value in y], points=points)


def chart(title: LocalizedText, x_label: LocalizedText, y_label: LocalizedText, *curves: ChartSeries) -> ChartBlock:
    """Curves over one axis."""
    return ChartBlock(title=title, x_label=x_label, y_label=y_label, series=list(curves))


def question(
    prompt: LocalizedText, options: Sequence[LocalizedText], correct: int, reason: LocalizedText
) -> QuestionBlock:
    """A question with its answer and the reason."""
    return QuestionBlock(question=prompt, choices=list(options), correct=correct, reason=reason)


def same(word: str) -> LocalizedText:
    """A text that is the same in both languages: a token, a number."""
    return both(word, word)


def number(value: float | Tensor, digits: int = 2) -> str:
    """A number as text, rounded as the page rounds it."""
    return fixed(float(value), digits)


def numbers(values: Float[Tensor, " N"], digits: int = 2) -> str:
    """A vector as text."""
    return "(" + ", ".join(number(value, digits) for value in values) + ")"


def attend_with_weights(
    queries: Float[Tensor, "... Q key"],
    keys: Float[Tensor, "... K key"],
    values: Float[Tensor, "... K value"] | None = None,
    **options: Any,
) -> tuple[Float[Tensor, "... Q K"], Float[Tensor, "... Q value"]]:
    """Weights and context of `attend`; without values the keys are the values."""
    attended = attend(queries, keys, keys if values is None else values, return_weights=True, **options)
    assert attended.weights is not None
    return attended.weights, attended.context


def nearest_choice(choices: Float[Tensor, " N"] | Sequence[float], value: float | Tensor) -> int:
    """The position of the choice nearest to a computed value, so that the right answer follows from the value."""
    return int((torch.as_tensor(choices) - float(value)).abs().argmin())


def glossed(word: str, gloss: str) -> LocalizedText:
    """A Chinese word, in English with its meaning."""
    return both(f"{word} ({gloss})" if gloss else word, word)


def make_generator(seed: int) -> torch.Generator:
    """A separate generator: pages are computed in parallel and must not affect each other."""
    return torch.Generator().manual_seed(seed)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread: small tensors gain nothing from more, least of all while a training uses the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        # restored, because other requests run in this process
        torch.set_num_threads(threads)
