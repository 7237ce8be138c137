"""What was measured of a language model on a split, in one file."""

from dataclasses import dataclass

from regard.evaluation.likelihood import Likelihood
from regard.evaluation.reading import read_report, write_report
from regard.evaluation.report import Circumstances, Speed
from regard.evaluation.spans import SPANS, SpanMass


@dataclass(frozen=True)
class Reach:
    """How far back the attention at a module path reaches: the weight within the last n words, for each n."""

    path: str
    spans: tuple[int, ...]
    within: tuple[float, ...]
    distance: float
    looks: int

    @classmethod
    def of(cls, path: str, mass: SpanMass) -> "Reach":
        """From what was measured."""
        return cls(path, SPANS, mass.within, mass.distance, mass.looks)


@dataclass(frozen=True, kw_only=True)
class LanguageReport:
    """Everything evaluated for a language model on a split.

    `perplexity` is per word, a line's end being one; `loss` is in nats a token of the model's vocabulary. `reading`
    says how the text was read: with the state carried through all of it, or in crops that each begin anew.
    """

    circumstances: Circumstances
    reading: str
    likelihood: Likelihood
    perplexity: float
    perplexity_per_token: float
    bits_per_character: float
    loss: float
    reaches: tuple[Reach, ...] = ()
    speed: Speed | None = None

    def to_json(self) -> str:
        """Readable JSON, keys in the order of the fields."""
        return write_report(self)

    @classmethod
    def from_json(cls, text: str) -> "LanguageReport":
        """The report that was written; a key too many, too few or of another kind is named."""
        return read_report(cls, text)
