"""Quality of translations: BLEU, chrF, exact matches, and quality by length.

Hypotheses and references come in pairs.

How close translations come to their references: BLEU, chrF and the share that is exactly right.

    BLEU = BP exp(1/4 sum_n log p_n),   n = 1..4,   BP = min(1, exp(1 - reference length / hypothesis length))

Papineni et al. 2002. https://aclanthology.org/P02-1040/
chrF: Popović 2015. https://aclanthology.org/W15-3049/
Both are sacrebleu's, with the signature that makes a figure comparable: Post 2018. https://arxiv.org/abs/1804.08771

Quality by the length of the source: where a fixed vector breaks down and attention does not.

The figure of Bahdanau, Cho and Bengio 2015, section 5.1. https://arxiv.org/abs/1409.0473
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


def check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse lists that are empty, of unequal length, or no lists at all."""
    for name, given in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(given, str):
            raise ValueError(f"{name} is one string, expected a list of sentences. Write [{name}].")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypotheses but {len(references)} references. Give one reference for each."
        )
    if not hypotheses:
        raise ValueError("there is nothing to evaluate: no hypotheses and no references. Give at least one of each.")


TOKENIZERS = {"zh": "zh", "zho": "zh", "cmn": "zh", "ja": "char", "jpn": "char"}
"""Languages written without spaces, and sacrebleu's tokenizer for each; all others use 13a."""


@dataclass(frozen=True)
class Quality:
    """A figure from 0 to 100, the signature that says how it was computed, and its name."""

    score: float
    signature: str
    name: str


@runtime_checkable
class Form(Protocol):
    """What text BLEU compares: its tokens and its case."""

    @property
    def name(self) -> str:
        """What a table calls it."""
        ...

    def metric(self) -> BLEU:
        """sacrebleu's metric of this form."""
        ...


@dataclass(frozen=True)
class Detokenised:
    """Text as people write it, with its case; sacrebleu cuts it into tokens by the rule of the target language.

    The figure to publish: it does not depend on anybody's own tokenisation. Chinese counts characters (zh), Japanese
    too (char, which needs no dictionary), all others the words of mteval-v13a.
    """

    language: str = "en"

    @property
    def name(self) -> str:
        """What a table calls it."""
        return "BLEU"

    def metric(self) -> BLEU:
        """sacrebleu's metric of this form."""
        language = self.language.lower().replace("_", "-").split("-")[0]
        return BLEU(tokenize=TOKENIZERS.get(language, "13a"))


@dataclass(frozen=True)
class TokenisedLowercase:
    """Text that is cut into tokens already, spaces between them, in lower case.

    Older papers and Multi30k report this one. The caller tokenises; the case of what is given does not matter.
    """

    @property
    def name(self) -> str:
        """What a table calls it."""
        return "BLEU, tokenised lower-case"

    def metric(self) -> BLEU:
        """sacrebleu's metric of this form; `force` says that the tokens are meant."""
        return BLEU(tokenize="none", lowercase=True, force=True)


CASED = Detokenised()


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, form: Form = CASED) -> Quality:
    """BLEU of a corpus, one reference a sentence."""
    check_pairs(hypotheses, references)
    metric = form.metric()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Quality(score=float(result.score), signature=str(metric.get_signature()), name=form.name)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Quality:
    """chrF2 of a corpus: F of character n-grams up to 6, recall counted twice as much as precision."""
    check_pairs(hypotheses, references)
    metric = CHRF()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Quality(score=float(result.score), signature=str(metric.get_signature()), name="chrF2")


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of hypotheses equal to their reference, character for character, from 0 to 1."""
    check_pairs(hypotheses, references)
    return sum(one == other for one, other in zip(hypotheses, references, strict=True)) / len(references)


Metric = Callable[[list[str], list[str]], float]


@dataclass(frozen=True)
class LengthBucket:
    """Sources of first..last words (last None: and longer); `value` is None where there are none."""

    first: int
    last: int | None
    count: int
    value: float | None

    @property
    def label(self) -> str:
        """What a table calls it."""
        return f"{self.first}+" if self.last is None else f"{self.first}-{self.last}"


def by_length(
    source_lengths: Sequence[int],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    metric: Metric,
    edges: Sequence[int] = (10, 20, 30, 40, 50),
) -> tuple[LengthBucket, ...]:
    """One bucket up to and with each edge, one beyond the last; the metric is taken of each bucket as a corpus.

    The caller counts the lengths, in words or in tokens.
    """
    check_pairs(hypotheses, references)
    if len(source_lengths) != len(hypotheses):
        raise ValueError(
            f"there are {len(source_lengths)} source lengths but {len(hypotheses)} hypotheses. Give one for each."
        )
    if not edges or sorted(set(edges)) != list(edges) or edges[0] < 0:
        raise ValueError(f"edges={tuple(edges)} must rise from 0 or more. Write for example edges=(10, 20, 30).")
    if min(source_lengths) < 0:
        raise ValueError(f"a source length of {min(source_lengths)} is below 0. Count words or tokens.")
    buckets = []
    for first, last in zip((0, *(edge + 1 for edge in edges)), (*edges, None), strict=True):
        places = [
            place for place, length in enumerate(source_lengths) if first <= length and (last is None or length <= last)
        ]
        value = metric([hypotheses[i] for i in places], [references[i] for i in places]) if places else None
        buckets.append(LengthBucket(first=first, last=last, count=len(places), value=value))
    return tuple(buckets)
