"""Training setup of text classifiers, and opening of trained folders."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from regard.checkpoint import RunFolder
from regard.data.batching import ClassificationExamples, ExampleData, make_classification_examples
from regard.data.text import Sentences, Tokenizer, classes_of, read_sentences
from regard.fused import fuse
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.tasks.base import (
    ExampleSource,
    Notify,
    TrainingSetup,
    corpus_of,
    fingerprints_of,
    read_splits,
    refuse_own_outputs,
    refuse_target,
)
from regard.tasks.text_classification.evaluate import predict_all
from regard.tasks.text_classification.predictor import TextClassifier
from regard.tasks.text_classification.run import TextClassificationRun
from regard.tasks.tokenizers import read_fitting, read_tokenizer
from regard.training import ClassificationObjective

MIN_CLASSES = 2


@dataclass(frozen=True, kw_only=True)
class ClassificationValidation:
    """Validation function of a classifier; called during training."""

    examples: ClassificationExamples

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Accuracy and log-loss; classes that are not in the training data count as errors without a loss."""
        log_probs = predict_all(model, self.examples).log_probs
        best = log_probs.argmax(dim=-1).numpy()
        # the label -100 is a class that the training data do not have
        has_class = self.examples.labels >= 0
        rows = log_probs.numpy()[has_class]
        accuracy = float((best == self.examples.labels).mean())
        if not len(rows):
            return {"accuracy": accuracy}
        return {"loss": float(-rows[range(len(rows)), self.examples.labels[has_class]].mean()), "accuracy": accuracy}


def setup_text_classification(
    run: TextClassificationRun, checkpoint: RunFolder, *, resume: bool, notify: Notify
) -> TrainingSetup:
    """Read the sentences and their classes, and train a vocabulary (if resumed, read it from the folder)."""
    if run.batch.packed:
        raise ValueError("text classifiers support padded batches only. Leave out batch.packed=true.")
    refuse_own_outputs(run)
    training, validation = run.data.read("train"), run.data.read("validation")
    for split, sentences in (("train", training), ("validation", validation)):
        notify(split, sentences.report)
    # saved weights belong to the ids of the saved vocabulary
    if resume:
        tokenizer = read_tokenizer(checkpoint.tokenizer)
    else:
        tokenizer = Tokenizer.train([sentence.text for sentence in training], run.tokenizer)
    classes = classes_of(training)
    # the loss of a single class is 0 for any weights
    if len(classes) < MIN_CLASSES:
        raise ValueError(
            f"all {len(training):,} training sentences have the class {classes[0]!r}. Give sentences of two classes or "
            f"more."
        )
    model = replace(run.model, vocab_size=tokenizer.vocab_size, num_classes=len(classes))
    run = replace(run, model=model, classes=classes)
    examples = make_classification_examples(training, tokenizer, classes, run.batch.max_length)
    held_out = make_classification_examples(validation, tokenizer, classes, run.batch.max_length)
    notify("train", examples.report)
    notify("validation", held_out.report)
    return TrainingSetup(
        run=run,
        files={checkpoint.tokenizer.name: tokenizer.to_json()},
        data=ExampleData(examples, run.batch),
        validate=ClassificationValidation(examples=held_out),
        fingerprints=fingerprints_of(run.data, {"train": training, "validation": validation}),
        example=validation[0].text,
        objective=partial(ClassificationObjective, fuse=fuse),
    )


def open_classifier(run: TextClassificationRun, model: Any, checkpoint: RunFolder) -> TextClassifier:
    """A text classifier from a model and the tokenizer of its folder."""
    count = len(set(run.classes))
    # no class occurs twice, and each has an output of the model
    if not count == len(run.classes) == run.model.num_classes:
        raise ValueError(
            f"{checkpoint.config} names {count} classes, and its model has {run.model.num_classes}. Restore the "
            f"original file."
        )
    return TextClassifier(model=model, tokenizer=read_fitting(checkpoint.tokenizer, run.model.vocab_size), run=run)


def read_labelled(run: TextClassificationRun, source: ExampleSource) -> Mapping[str, Sentences]:
    """Sentences of the user's file or of splits of the corpus; by default all splits but training."""
    refuse_target(run, source)
    if source.folder is not None:
        raise ValueError("sentences are read from a file, not from a data folder. Name it with --source.")
    if source.source is not None:
        # the prefix keeps a file name from being equal to the name of a split
        return {f"file-{source.source.name}": read_sentences(source.source)}
    return read_splits(corpus_of(run, None), source.split)


def example_command(run: TextClassificationRun, folder: str, example: str) -> str:
    """A shell command that classifies the example."""
    explain = " --explain" if TEXT_CLASSIFICATION_MODELS[run.model_name].attends else ""
    return f"regard classify {folder}{explain} -- {example}"
