"""Figures of a translation model on pairs: likelihood under teacher forcing, and the quality of its translations."""

import math
from collections.abc import Callable, Iterable

import torch

from regard.contracts import Batch, Model, map_tensors
from regard.data import Examples, TokenBudget, batches_by_length
from regard.decoding import device_of, evaluating
from regard.evaluation import Detokenised, Form, Perplexity, TokenisedLowercase, bleu, exact_match
from regard.recipes.corpora import Corpus
from regard.recipes.made import MadeCorpus

VALIDATION_TOKENS = 4096


def perplexity(model: Model, batches: Iterable[Batch]) -> Perplexity:
    """Teacher-forced, without label smoothing; batches are moved to the model's device."""
    device = device_of(model)
    nats: list[torch.Tensor] = []
    tokens = 0
    with evaluating(model):
        for given in batches:
            batch = map_tensors(lambda tensor: tensor.to(device), given)
            features = model.features(batch.source, batch.target)
            nats.append(model.readout.loss(features, batch.labels))
            tokens += batch.num_tokens
        # one transfer at the end: the device need not wait for the host after every batch
        total = math.fsum(torch.stack(nats).tolist()) if nats else 0.0
    return Perplexity.of(nats=total, tokens=tokens)


def measure_perplexity(model: Model, examples: Examples) -> Perplexity:
    """Over all examples, those of like length together."""
    rows = batches_by_length(examples.lengths, TokenBudget(VALIDATION_TOKENS))
    return perplexity(model, (examples.batch(some) for some in rows))


def forms_of(corpus: Corpus) -> list[Form]:
    """The forms of BLEU that mean something for the corpus, the first one to go by.

    Text that is tokenised and lower-cased already has one. Of other text the cased, detokenised form is the one to
    publish; where words have spaces between them, the lower-case form as it stands is computed too.
    """
    language = corpus.languages[1]
    if corpus.tokenised:
        return [TokenisedLowercase()]
    cased = Detokenised(language or "en")
    return [cased] if cased.metric().tokenizer.signature() != "13a" else [cased, TokenisedLowercase()]


def quality_of(corpus: Corpus) -> tuple[str, Callable[[list[str], list[str]], float]]:
    """The one figure to go by: exact matches where one answer is right, else BLEU."""
    if isinstance(corpus, MadeCorpus):
        return "exact_match", exact_match
    form = forms_of(corpus)[0]
    return "bleu", lambda hypotheses, references: bleu(hypotheses, references, form=form).score
