"""How close translations come to their references: BLEU, chrF and the share that is exactly right.

    BLEU = BP exp(1/4 sum_n log p_n),   n = 1..4,   BP = min(1, exp(1 - reference length / hypothesis length))

Papineni et al. 2002. https://aclanthology.org/P02-1040/
chrF: Popović 2015. https://aclanthology.org/W15-3049/
Both are sacrebleu's, with the signature that makes a figure comparable: Post 2018. https://arxiv.org/abs/1804.08771
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.evaluation.check import check_pairs

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
