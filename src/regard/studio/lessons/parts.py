"""What every lesson's page is made of."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.studio.schema import ChartBlock, Control, FormulaBlock, MatrixBlock, QuestionBlock, Said, Series, TextBlock


def said(en: str, zh: str) -> Said:
    """A text in both languages."""
    return Said(en=en, zh=zh)


def text(en: str, zh: str) -> TextBlock:
    """A paragraph."""
    return TextBlock(text=said(en, zh))


def formula(tex: str) -> FormulaBlock:
    """A formula that stands alone."""
    return FormulaBlock(tex=tex)


def control(name: str, label: Said, *, low: float, high: float, step: float, value: float) -> Control:
    """A slider."""
    return Control(name=name, label=label, low=low, high=high, step=step, value=value)


def matrix(
    title: Said,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Float[Tensor, "rows columns"],
    allowed: Bool[Tensor, "rows columns"] | None = None,
) -> MatrixBlock:
    """Numbers with a name for every row and column; those that are not allowed are left out."""
    kept = torch.ones_like(values, dtype=torch.bool) if allowed is None else allowed
    cells = [
        [value if keep else None for value, keep in zip(row, keeps, strict=True)]
        for row, keeps in zip(values.tolist(), kept.tolist(), strict=True)
    ]
    return MatrixBlock(title=title, rows=list(rows), columns=list(columns), values=cells)


def series(
    label: Said, x: Float[Tensor, " N"] | Sequence[float], y: Float[Tensor, " N"] | Sequence[float], *, points: bool
) -> Series:
    """One curve, or its points alone."""
    return Series(label=label, x=[float(one) for one in x], y=[float(one) for one in y], points=points)


def chart(title: Said, x_label: Said, y_label: Said, *curves: Series) -> ChartBlock:
    """Curves over one axis."""
    return ChartBlock(title=title, x_label=x_label, y_label=y_label, series=list(curves))


def question(asked: Said, choices: Sequence[Said], right: int, because: Said) -> QuestionBlock:
    """Predict, then reveal."""
    return QuestionBlock(question=asked, choices=list(choices), right=right, because=because)


def same(word: str) -> Said:
    """What is written alike in both languages: a token, a number."""
    return said(word, word)


def number(value: float | Tensor, digits: int = 2) -> str:
    """A number as a text has it; what rounds to zero has no sign."""
    rounded = f"{float(value):.{digits}f}"
    return rounded.lstrip("-") if float(rounded) == 0 else rounded


def numbers(values: Float[Tensor, " N"], digits: int = 2) -> str:
    """A vector as a text has it."""
    return "(" + ", ".join(number(value, digits) for value in values) + ")"


def chance(seed: int) -> torch.Generator:
    """Random numbers of one's own: pages are computed side by side, and one must not disturb another."""
    return torch.Generator().manual_seed(seed)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from more threads, which wait for each other while a training has the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
