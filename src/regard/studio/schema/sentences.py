"""A sentence as a classifier sees it: how probable each class is, and how alike its rows of attention are."""

from regard.studio.schema.base import Message


class ClassShare(Message):
    """One class."""

    label: str
    logit: float
    probability: float


class Overlap(Message):
    """How alike the rows are: the mean cosine of two of them, that of every pair, and ||A A^T - I||_F^2."""

    cosine: float
    penalty: float
    cosines: list[list[float]]


class Sorted(Message):
    """The class of a sentence, all classes in falling order, and the rows of attention at `site`, if it has any."""

    label: str
    classes: list[ClassShare]
    site: str | None
    rows: int
    overlap: Overlap | None
    unknown: list[str]
