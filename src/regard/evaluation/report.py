"""What was measured of a system, in one file: tables are written from such files, never typed.

A figure without its circumstances says little, so data, split, search, sizes, seed and machine stand beside it.
"""

from dataclasses import dataclass

from regard.evaluation.bleu import Quality
from regard.evaluation.lengths import LengthBucket
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.reading import read_report, write_report


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What was evaluated, on what, and how it was searched and trained."""

    system: str
    data: str
    split: str
    sentences: int
    search: str
    parameters: int
    steps: int
    seed: int


@dataclass(frozen=True)
class Speed:
    """How long the translation took, how many target tokens it gave, and the machine."""

    seconds: float
    tokens: int
    tokens_per_second: float
    hardware: str

    @classmethod
    def of(cls, *, seconds: float, tokens: int, hardware: str) -> "Speed":
        """From the clock and the count."""
        if seconds <= 0:
            raise ValueError(f"seconds={seconds} must be more than 0. Measure with time.perf_counter.")
        return cls(seconds, tokens, tokens / seconds, hardware)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything evaluated for a system; None for what does not apply.

    bleu is cased and detokenised, bleu_tokenised tokenised and lower-case, exact_match a share from 0 to 1.
    """

    circumstances: Circumstances
    bleu: Quality | None = None
    bleu_tokenised: Quality | None = None
    chrf: Quality | None = None
    exact_match: float | None = None
    perplexity: Perplexity | None = None
    by_length: tuple[LengthBucket, ...] = ()
    speed: Speed | None = None

    def to_json(self) -> str:
        """Readable JSON, keys in the order of the fields; numbers that JSON lacks are words: "nan", "inf"."""
        return write_report(self)

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """The report that was written; a key too many, too few or of another kind is named."""
        return read_report(cls, text)
