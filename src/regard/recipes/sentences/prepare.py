"""Classifying sentences as a task: labelled sentences to examples, and a folder to a classifier."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.data import TokenBudget, Tokenizer, batches_by_length
from regard.data.labelled import LabelledExamples, make_labelled
from regard.data.sentences import classes_of
from regard.evaluation.classification import Answers, classify
from regard.recipes.prepared import ExampleData, Prepared, Say
from regard.recipes.sentences.classifier import Classifier
from regard.recipes.sentences.run import SentenceRun
from regard.recipes.vocabulary import read_fitting, read_tokenizer
from regard.storage import Checkpoint
from regard.training.sentence_objective import SentenceObjective

JUDGED_TOKENS = 4096
FEWEST_CLASSES = 2


@dataclass(frozen=True, kw_only=True)
class SentenceValidation:
    """Called with the model now and then as it learns."""

    examples: LabelledExamples

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Accuracy and log-loss; a class that training never saw counts as wrong, and has no loss."""
        said = answers_of(model, self.examples)
        best = said.log_probs.argmax(dim=-1).numpy()
        known = self.examples.labels >= 0
        rows = said.log_probs.numpy()[known]
        accuracy = float((best == self.examples.labels).mean())
        if not len(rows):
            return {"accuracy": accuracy}
        return {"loss": float(-rows[range(len(rows)), self.examples.labels[known]].mean()), "accuracy": accuracy}


def answers_of(model: Any, examples: LabelledExamples) -> Answers:
    """What a model says of every example, in their order."""
    batches = batches_by_length(examples.lengths, TokenBudget(JUDGED_TOKENS))
    said = classify(model, (examples.batch(rows).sentences for rows in batches))
    places = [0] * len(examples)
    for place, row in enumerate(row for rows in batches for row in rows):
        places[row] = place
    return replace(said, log_probs=said.log_probs[places])


def prepare_sentences(run: SentenceRun, checkpoint: Checkpoint, *, going_on: bool, say: Say) -> Prepared:
    """Read the sentences, learn their words (or go on with those of the folder) and their classes."""
    if run.batch.packed:
        raise ValueError("sentences are classified in padded batches. Leave out batch.packed=true.")
    training, validation = run.data.read("train"), run.data.read("validation")
    for split, sentences in (("train", training), ("validation", validation)):
        say(split, sentences.report)
    if going_on:
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
    say("train", examples.report)
    say("validation", held_out.report)
    return Prepared(
        run=run,
        files={checkpoint.tokenizer.name: tokenizer.to_json()},
        data=ExampleData(examples, run.batch),
        validate=SentenceValidation(examples=held_out),
        example=validation[0].text,
        objective=SentenceObjective,
        unit="sentences",
    )


def open_classifier(checkpoint: Checkpoint, run: SentenceRun, model: Any) -> Classifier:
    """A classifier out of a folder and the model in it."""
    count = len(set(run.classes))
    if not count == len(run.classes) == run.model.num_classes:
        raise ValueError(
            f"{checkpoint.config} names {count} classes, and its model has {run.model.num_classes}. Restore the one "
            f"that was there."
        )
    return Classifier(model=model, tokenizer=read_fitting(checkpoint.tokenizer, run.model.vocab_size), config=run)
