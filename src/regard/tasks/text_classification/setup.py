"""Text classification as a task: labelled sentences to a training setup, and a folder to a classifier."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from regard.checkpoint import Checkpoint
from regard.data.batching import ExampleData, LabelledExamples, make_labelled
from regard.data.text import Sentences, Tokenizer, classes_of, read_sentences
from regard.fused import fuse
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.tasks.base import ExampleSource, Notify, TrainingSetup, corpus_of, read_splits, refuse_target
from regard.tasks.text_classification.evaluate import answers_of
from regard.tasks.text_classification.predictor import Classifier
from regard.tasks.text_classification.run import TextClassificationRun
from regard.tasks.tokenizers import read_fitting, read_tokenizer
from regard.training import ClassificationObjective

FEWEST_CLASSES = 2


@dataclass(frozen=True, kw_only=True)
class ClassificationValidation:
    """Called with the model during training."""

    examples: LabelledExamples

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Accuracy and log-loss; a class that training never saw counts as wrong, and has no loss."""
        log_probs = answers_of(model, self.examples).log_probs
        best = log_probs.argmax(dim=-1).numpy()
        known = self.examples.labels >= 0
        rows = log_probs.numpy()[known]
        accuracy = float((best == self.examples.labels).mean())
        if not len(rows):
            return {"accuracy": accuracy}
        return {"loss": float(-rows[range(len(rows)), self.examples.labels[known]].mean()), "accuracy": accuracy}


def setup_sentences(
    run: TextClassificationRun, checkpoint: Checkpoint, *, resume: bool, notify: Notify
) -> TrainingSetup:
    """Read the sentences, learn their words (or, resumed, take those of the folder) and their classes."""
    if run.batch.packed:
        raise ValueError("sentences are classified in padded batches. Leave out batch.packed=true.")
    training, validation = run.data.read("train"), run.data.read("validation")
    for split, sentences in (("train", training), ("validation", validation)):
        notify(split, sentences.report)
    if resume:
        tokenizer = read_tokenizer(checkpoint.tokenizer)
    else:
        tokenizer = Tokenizer.train([sentence.text for sentence in training], run.tokenizer)
    classes = classes_of(training)
    if len(classes) < FEWEST_CLASSES:
        raise ValueError(f"all {len(training):,} sentences are of the class {classes[0]!r}. Give two classes or more.")
    model = replace(run.model, vocab_size=tokenizer.vocab_size, num_classes=len(classes))
    run = replace(run, model=model, classes=classes)
    examples = make_labelled(training, tokenizer, classes, run.batch.max_length)
    held_out = make_labelled(validation, tokenizer, classes, run.batch.max_length)
    notify("train", examples.report)
    notify("validation", held_out.report)
    return TrainingSetup(
        run=run,
        files={checkpoint.tokenizer.name: tokenizer.to_json()},
        data=ExampleData(examples, run.batch),
        validate=ClassificationValidation(examples=held_out),
        example=validation[0].text,
        objective=partial(ClassificationObjective, fuse=fuse),
    )


def open_classifier(run: TextClassificationRun, model: Any, checkpoint: Checkpoint) -> Classifier:
    """A classifier of a model and the folder's tokenizer."""
    count = len(set(run.classes))
    if not count == len(run.classes) == run.model.num_classes:
        raise ValueError(
            f"{checkpoint.config} names {count} classes, and its model has {run.model.num_classes}. Restore the one "
            f"that was there."
        )
    return Classifier(model=model, tokenizer=read_fitting(checkpoint.tokenizer, run.model.vocab_size), run=run)


def read_labelled(run: TextClassificationRun, source: ExampleSource) -> Mapping[str, Sentences]:
    """One split of the run's sentences, all but the training sentences, or a file."""
    refuse_target(run, source)
    if source.folder is not None:
        raise ValueError("sentences are read from a file, not from a data folder. Name it with --source.")
    if source.source is not None:
        return {f"file-{source.source.name}": read_sentences(source.source)}
    return read_splits(corpus_of(run, None), source.split)


def example_command(run: TextClassificationRun, folder: str, example: str) -> str:
    """A command that classifies the example."""
    explained = " --explain" if TEXT_CLASSIFICATION_MODELS[run.model_name].attends else ""
    return f"regard classify {folder}{explained} -- {example}"
