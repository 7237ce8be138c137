"""How good a classifier is on a split: accuracy, every confusion, and how alike its rows of attention are."""

import time

from regard.data.labelled import make_labelled
from regard.data.sentences import Sentences
from regard.evaluation import Circumstances, Speed
from regard.evaluation.classification import ClassificationReport, classification_report
from regard.recipes.evaluate import data_of, hardware
from regard.recipes.fit import count_parameters
from regard.recipes.sentences.classifier import Classifier
from regard.recipes.sentences.prepare import answers_of


def evaluate_sentences(
    classifier: Classifier, sentences: Sentences, *, split: str, steps: int = 0
) -> ClassificationReport:
    """Classify all sentences and compare; `steps` are those the model was trained for."""
    run = classifier.config
    examples = make_labelled(sentences, classifier.tokenizer, run.classes, run.batch.max_length)
    began = time.perf_counter()
    answers = answers_of(classifier.model, examples)
    seconds = time.perf_counter() - began
    return classification_report(
        answers,
        examples.truths,
        run.classes,
        circumstances=Circumstances(
            system=run.model_name,
            data=data_of(run),
            split=split,
            sentences=len(sentences),
            search="",
            parameters=count_parameters(classifier.model),
            steps=steps,
            seed=run.training.seed,
        ),
        speed=Speed.of(seconds=seconds, tokens=int(examples.ids.lengths.sum()), hardware=hardware(classifier.device)),
    )
