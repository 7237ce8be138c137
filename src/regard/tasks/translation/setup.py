"""Translation as a task: pairs of sentences to a training setup, and a folder to a translator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.checkpoint import Checkpoint
from regard.data.batching import ExampleData, Examples, make_examples
from regard.data.corpora import SPLITS, read_files
from regard.data.text import Pair, Pairs, Tokenizers
from regard.fused import fuse
from regard.models.translation import MODELS
from regard.tasks.base import ExampleSource, Notify, TrainingSetup, corpus_of
from regard.tasks.tokenizers import read_tokenizer
from regard.tasks.translation.evaluate import measure_perplexity, quality_of
from regard.tasks.translation.predictor import Translator
from regard.tasks.translation.run import LONGEST_SOURCE, Run, fit_to
from regard.training import Objective


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Called with the model during training."""

    tokenizers: Tokenizers
    run: Run
    pairs: Sequence[Pair]
    examples: Examples

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Loss and perplexity of all pairs; quality on the first of them, translated greedily."""
        likelihood = measure_perplexity(model, self.examples)
        metrics = {"loss": likelihood.nats / likelihood.tokens, "perplexity": likelihood.perplexity}
        pairs = self.pairs[: self.run.validation.sentences]
        if pairs:
            name, metric = quality_of(self.run.data)
            translator = Translator(model=model, tokenizers=self.tokenizers, run=self.run)
            outputs = translator.predict([pair.source for pair in pairs], beam=1)
            metrics[name] = metric([output.text for output in outputs], [pair.target for pair in pairs])
        return metrics


def setup_translation(run: Run, checkpoint: Checkpoint, *, resume: bool, notify: Notify) -> TrainingSetup:
    """Read the pairs, learn a vocabulary (or, resumed, take that of the folder), and encode them."""
    check_packed(run)
    training, validation = run.data.read("train"), run.data.read("validation")
    for split, report in (("train", training.report), ("validation", validation.report)):
        notify(split, report)
    if resume:
        tokenizers = read_tokenizers(checkpoint, run)
    else:
        tokenizers = Tokenizers.train(training, run.tokenizer, joint=run.tokenizer.joint)
    run = fit_to(run, tokenizers)
    examples = make_examples(training, tokenizers, run.batch.max_length)
    held_out = make_examples(validation, tokenizers, LONGEST_SOURCE - 1)
    notify("train", examples.report)
    notify("validation", held_out.report)
    files = {checkpoint.tokenizer.name: tokenizers.source.to_json()}
    if not tokenizers.joint:
        files[checkpoint.target_tokenizer.name] = tokenizers.target.to_json()
    return TrainingSetup(
        run=run,
        files=files,
        data=ExampleData(examples, run.batch),
        objective=partial(Objective, fuse=fuse),
        validate=Validation(tokenizers=tokenizers, run=run, pairs=validation, examples=held_out),
        example=validation[0].source,
    )


def open_translator(run: Run, model: Any, checkpoint: Checkpoint) -> Translator:
    """A translator of a model and the folder's tokenizers."""
    return Translator(model=model, tokenizers=read_tokenizers(checkpoint, run), run=run)


def read_pairs(run: Run, source: ExampleSource) -> Mapping[str, Pairs]:
    """A split of the run's corpus, the test where it has one, or files."""
    if source.source is not None or source.target is not None:
        files = [None if path is None else str(path) for path in (source.source, source.target)]
        # as no split is called
        return {f"file-{source.source.name if source.source else 'files'}": read_files(*files)}
    corpus = corpus_of(run, source.folder)
    split = source.split or tuple(getattr(corpus, "splits", SPLITS))[-1]
    return {split: corpus.read(split)}


def example_command(run: Run, folder: str, example: str) -> str:
    """A command that translates the example."""
    linked = " --alignments" if MODELS[run.model_name].attends else ""
    return f"echo {example} | regard translate {folder} --beam 5{linked}"


def read_tokenizers(checkpoint: Checkpoint, run: Run) -> Tokenizers:
    """The tokenizers of a folder."""
    source = read_tokenizer(checkpoint.tokenizer)
    joint = run.tokenizer.joint
    return Tokenizers(source, source if joint else read_tokenizer(checkpoint.target_tokenizer), joint)


def check_packed(run: Run) -> None:
    """Refuse packed batches for models that take padded ones only."""
    if run.batch.packed and not MODELS[run.model_name].packs:
        raise ValueError(
            f"{run.model_name} reads padded batches only. Leave out batch.packed=true, or train a "
            f"{' or '.join(name for name, entry in MODELS.items() if entry.packs)}."
        )
