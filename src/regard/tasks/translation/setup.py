"""Training setup of translation models, and opening of trained folders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from regard.checkpoint import RunFolder
from regard.data.batching import ExampleData, Examples, make_examples
from regard.data.corpora import SPLITS, read_files
from regard.data.text import Pair, Pairs, Tokenizers
from regard.fused import fuse
from regard.models.translation import TRANSLATION_MODELS
from regard.tasks.base import (
    ExampleSource,
    Notify,
    TrainingSetup,
    corpus_of,
    fingerprints_of,
)
from regard.tasks.tokenizers import check_fits, read_tokenizer
from regard.tasks.translation.evaluate import measure_perplexity, quality_of
from regard.tasks.translation.objective import OwnOutputObjective
from regard.tasks.translation.predictor import Translator
from regard.tasks.translation.run import LONGEST_SOURCE, TranslationRun, fit_to
from regard.training import Objective


@dataclass(frozen=True, kw_only=True)
class TranslationValidation:
    """Validation function of a translation model; called during training."""

    tokenizers: Tokenizers
    run: TranslationRun
    pairs: Sequence[Pair]
    examples: Examples

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Loss and perplexity of all pairs, and the quality of greedy translations of the first pairs."""
        likelihood = measure_perplexity(model, self.examples)
        metrics = {"loss": likelihood.nats / likelihood.tokens, "perplexity": likelihood.perplexity}
        pairs = self.pairs[: self.run.validation.sentences]
        if pairs:
            name, metric = quality_of(self.run.data)
            fused = self.run.training.compute.fused
            translator = Translator(model=model, tokenizers=self.tokenizers, run=self.run, fused=fused)
            outputs = translator.predict([pair.source for pair in pairs], beam=1)
            metrics[name] = metric([output.text for output in outputs], [pair.target for pair in pairs])
        return metrics


def setup_translation(run: TranslationRun, checkpoint: RunFolder, *, resume: bool, notify: Notify) -> TrainingSetup:
    """Read the pairs, train a vocabulary (if resumed, read it from the folder), and encode the pairs."""
    check_packed(run)
    check_own_outputs(run)
    training, validation = run.data.read("train"), run.data.read("validation")
    for split, report in (("train", training.report), ("validation", validation.report)):
        notify(split, report)
    # saved weights belong to the ids of the saved vocabulary
    if resume:
        tokenizers = read_tokenizers(checkpoint, run)
    else:
        tokenizers = Tokenizers.train(training, run.tokenizer, joint=run.tokenizer.joint)
    run = fit_to(run, tokenizers)
    examples = make_examples(training, tokenizers, run.batch.max_length)
    # long pairs are left out of training, but validated as far as they can be decoded
    held_out = make_examples(validation, tokenizers, LONGEST_SOURCE - 1)
    notify("train", examples.report)
    notify("validation", held_out.report)
    files = {checkpoint.tokenizer.name: tokenizers.source.to_json()}
    # a joint vocabulary is saved once
    if not tokenizers.joint:
        files[checkpoint.target_tokenizer.name] = tokenizers.target.to_json()
    return TrainingSetup(
        run=run,
        files=files,
        data=ExampleData(examples, run.batch),
        objective=make_objective(run),
        validate=TranslationValidation(tokenizers=tokenizers, run=run, pairs=validation, examples=held_out),
        fingerprints=fingerprints_of(run.data, {"train": training, "validation": validation}),
        example=validation[0].source,
        label_counts=examples.label_counts(tokenizers.target.vocab_size),
    )


def open_translator(run: TranslationRun, model: Any, checkpoint: RunFolder) -> Translator:
    """A translator from a model and the tokenizers of its folder."""
    tokenizers = read_tokenizers(checkpoint, run)
    target_path = checkpoint.tokenizer if tokenizers.joint else checkpoint.target_tokenizer
    check_fits(tokenizers.source, run.model.source_vocab_size, checkpoint.tokenizer)
    check_fits(tokenizers.target, run.model.target_vocab_size, target_path)
    return Translator(model=model, tokenizers=tokenizers, run=run)


def read_pairs(run: TranslationRun, source: ExampleSource) -> Mapping[str, Pairs]:
    """Pairs of the user's files or of a split of the corpus; by default the last split, which is the test."""
    if source.source is not None or source.target is not None:
        files = [None if path is None else str(path) for path in (source.source, source.target)]
        # the prefix keeps a file name from being equal to the name of a split
        return {f"file-{source.source.name if source.source else 'files'}": read_files(*files)}
    corpus = corpus_of(run, source.folder)
    # corpora of other packages may have no `splits`
    split = source.split or tuple(getattr(corpus, "splits", SPLITS))[-1]
    return {split: corpus.read(split)}


def example_command(run: TranslationRun, folder: str, example: str) -> str:
    """A shell command that translates the example."""
    alignments = " --alignments" if TRANSLATION_MODELS[run.model_name].attends else ""
    return f"echo {example} | regard translate {folder} --beam 5{alignments}"


def read_tokenizers(checkpoint: RunFolder, run: TranslationRun) -> Tokenizers:
    """The tokenizers of a folder."""
    source = read_tokenizer(checkpoint.tokenizer)
    joint = run.tokenizer.joint
    return Tokenizers(source, source if joint else read_tokenizer(checkpoint.target_tokenizer), joint)


def make_objective(run: TranslationRun) -> Callable[..., nn.Module]:
    """Teacher forcing, or training on the model's own outputs."""
    if ratio := run.training.own_output_ratio:
        return partial(OwnOutputObjective, own_output_ratio=ratio, fuse=fuse)
    return partial(Objective, fuse=fuse)


def check_own_outputs(run: TranslationRun) -> None:
    """Reject packed batches for training on own outputs, whose steps need padded ones."""
    if run.training.own_output_ratio and run.batch.packed:
        raise ValueError(
            f"training.own_output_ratio is {run.training.own_output_ratio}, for which batches are padded. Set "
            f"batch.packed=false."
        )


def check_packed(run: TranslationRun) -> None:
    """Reject packed batches for models that support only padded ones."""
    if run.batch.packed and not TRANSLATION_MODELS[run.model_name].packs:
        raise ValueError(
            f"{run.model_name} supports padded batches only. Leave out batch.packed=true, or train a "
            f"{' or '.join(name for name, entry in TRANSLATION_MODELS.items() if entry.packs)}."
        )
