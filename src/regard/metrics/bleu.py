"""Quality of translations: BLEU, chrF, exact matches, and quality by the length of the source.

    BLEU = BP exp(1/4 sum_n log p_n),   n = 1..4,   BP = min(1, exp(1 - reference length / hypothesis length))

BLEU: Papineni et al. 2002. https://aclanthology.org/P02-1040/
chrF: Popović 2015. https://aclanthology.org/W15-3049/

Both are computed by sacrebleu, with the signature that makes a score comparable: Post 2018.
https://arxiv.org/abs/1804.08771

Quality by length is the figure of Bahdanau, Cho and Bengio 2015, section 5.1: a model with a fixed vector degrades on
long sentences, one with attention does not. https://arxiv.org/abs/1409.0473
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


def check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse lists that are empty or of unequal length, and a string in place of a list."""
    for name, sentences in (("hypotheses", hypotheses), ("references", references)):
        # a string is a sequence of strings too, and would be scored character by character
        if isinstance(sentences, str):
            raise TypeError(f"{name} is one string, expected a list of sentences. Write [{name}].")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypotheses but {len(references)} references. Give one reference for each."
        )
    if not hypotheses:
        raise ValueError("there is nothing to evaluate: no hypotheses and no references. Give at least one of each.")


TOKENIZERS = {"zh": "zh", "zho": "zh", "cmn": "zh", "ja": "char", "jpn": "char"}
"""Languages written without spaces, and sacrebleu's tokenizer for each; all others take 13a."""


@dataclass(frozen=True)
class Quality:
    """A score from 0 to 100, sacrebleu's signature of how it was computed, and its name."""

    score: float
    signature: str
    name: str


@runtime_checkable
class BleuVariant(Protocol):
    """The text that BLEU compares: how it is tokenised, and whether case counts."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    def metric(self) -> BLEU:
        """sacrebleu's metric with these settings."""
        ...


@dataclass(frozen=True)
class Detokenised:
    """Text with its case, which sacrebleu tokenises by the rules of the target language.

    The score to publish: it does not depend on the model's own tokenisation. Chinese counts characters (zh), Japanese
    too (char, which needs no dictionary), all others the words of mteval-v13a.
    """

    language: str = "en"

    @property
    def name(self) -> str:
        """Name in tables."""
        return "BLEU"

    def metric(self) -> BLEU:
        """sacrebleu's metric with the language's tokenizer."""
        # "zh-CN" and "zh_cn" are "zh"
        language = self.language.lower().replace("_", "-").split("-")[0]
        return BLEU(tokenize=TOKENIZERS.get(language, "13a"))


@dataclass(frozen=True)
class TokenisedLowercase:
    """Text that is tokenised already, with spaces between the tokens; compared in lower case.

    Older papers and Multi30k report this one. The caller tokenises; the texts may have any case.
    """

    @property
    def name(self) -> str:
        """Name in tables."""
        return "BLEU, tokenised lower-case"

    def metric(self) -> BLEU:
        """sacrebleu's metric without a tokenizer."""
        # `force` silences the warning about tokenised text
        return BLEU(tokenize="none", lowercase=True, force=True)


CASED = Detokenised()


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, form: BleuVariant = CASED) -> Quality:
    """BLEU of a corpus with one reference per sentence."""
    check_pairs(hypotheses, references)
    metric = form.metric()
    # the list of references is a list of corpora: one corpus, as every hypothesis has one reference
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Quality(score=float(result.score), signature=str(metric.get_signature()), name=form.name)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Quality:
    """chrF2 of a corpus: F-score of character n-grams up to 6, with recall weighted twice as much as precision."""
    check_pairs(hypotheses, references)
    metric = CHRF()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Quality(score=float(result.score), signature=str(metric.get_signature()), name="chrF2")


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of hypotheses that equal their reference character for character, from 0 to 1."""
    check_pairs(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(hypothesis == reference for hypothesis, reference in pairs) / len(references)


Metric = Callable[[list[str], list[str]], float]


@dataclass(frozen=True)
class LengthBucket:
    """Sources of first to last words, without a limit if last is None; `value` is None in an empty bucket."""

    first: int
    last: int | None
    count: int
    value: float | None

    @property
    def label(self) -> str:
        """Name in tables."""
        return f"{self.first}+" if self.last is None else f"{self.first}-{self.last}"


def by_length(
    source_lengths: Sequence[int],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    metric: Metric,
    edges: Sequence[int] = (10, 20, 30, 40, 50),
) -> tuple[LengthBucket, ...]:
    """The metric of each bucket of source lengths, as a corpus: one bucket up to each edge, one beyond the last.

    The caller counts the lengths, in words or in tokens.
    """
    check_pairs(hypotheses, references)
    if len(source_lengths) != len(hypotheses):
        raise ValueError(
            f"there are {len(source_lengths)} source lengths but {len(hypotheses)} hypotheses. Give one for each."
        )
    # equal or unordered edges would give empty or overlapping buckets
    if not edges or sorted(set(edges)) != list(edges) or edges[0] < 0:
        raise ValueError(
            f"edges={tuple(edges)} must be ascending and not negative. Write for example edges=(10, 20, 30)."
        )
    if min(source_lengths) < 0:
        raise ValueError(
            f"a source length of {min(source_lengths)} is negative. Count the words or tokens of each source."
        )
    buckets = []
    # buckets (0, 10), (11, 20), .., (51, None)
    for first, last in zip((0, *(edge + 1 for edge in edges)), (*edges, None), strict=True):
        rows = [
            row for row, length in enumerate(source_lengths) if first <= length and (last is None or length <= last)
        ]
        # BLEU is not a mean over sentences, so each bucket is scored as a corpus of its own
        value = metric([hypotheses[row] for row in rows], [references[row] for row in rows]) if rows else None
        buckets.append(LengthBucket(first=first, last=last, count=len(rows), value=value))
    return tuple(buckets)
