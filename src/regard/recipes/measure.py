"""What is measured of a model on pairs: likelihood under teacher forcing, and the quality of what it writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data import Examples, Pair, TokenBudget, Tokenizers, batches_by_length
from regard.evaluation import Detokenised, Form, Perplexity, TokenisedLowercase, bleu, exact_match, perplexity
from regard.recipes.corpora import Corpus
from regard.recipes.made import MadeCorpus
from regard.recipes.run import Run
from regard.recipes.translator import Translator, make_search

VALIDATION_TOKENS = 4096


def measure_perplexity(model: Any, examples: Examples) -> Perplexity:
    """Over all examples, those of like length together."""
    rows = batches_by_length(examples.lengths, TokenBudget(VALIDATION_TOKENS))
    return perplexity(model, (examples.batch(some) for some in rows))


def forms_of(corpus: Corpus) -> list[Form]:
    """The forms of BLEU that mean something for the corpus, the first one to go by.

    Text that is tokenised and lower-cased already has one. Of other text the cased, detokenised form is the one to
    publish; where words have spaces between them, the lower-case form as it stands is told too.
    """
    language = corpus.languages[1]
    if corpus.tokenised:
        return [TokenisedLowercase()]
    cased = Detokenised(language or "en")
    return [cased] if cased.metric().tokenizer.signature() != "13a" else [cased, TokenisedLowercase()]


def quality_of(corpus: Corpus) -> tuple[str, Callable[[list[str], list[str]], float]]:
    """The one figure that tells how good translations are: exact matches where one answer is right, else BLEU."""
    if isinstance(corpus, MadeCorpus):
        return "exact_match", exact_match
    form = forms_of(corpus)[0]
    return "bleu", lambda hypotheses, references: bleu(hypotheses, references, form=form).score


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Called with the model now and then as it learns."""

    tokenizers: Tokenizers
    config: Run
    pairs: Sequence[Pair]
    examples: Examples

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Loss and perplexity of all pairs; quality on the first of them, translated greedily."""
        found = measure_perplexity(model, self.examples)
        metrics = {"loss": found.nats / found.tokens, "perplexity": found.perplexity}
        some = self.pairs[: self.config.validation.sentences]
        if some:
            name, metric = quality_of(self.config.data)
            answering = Translator(model=model, tokenizers=self.tokenizers, config=self.config)
            texts = answering.answer([pair.source for pair in some], make_search(1), return_attention=False)
            metrics[name] = metric([text.text for text in texts], [pair.target for pair in some])
        return metrics
