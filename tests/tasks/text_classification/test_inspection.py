"""Inspections of sentences: the classes panel and its query rows."""

from contextlib import nullcontext

import pytest
import torch

from regard.attention import intervene
from regard.contracts import ClassesPanel
from tests.small_models import QUESTION


@pytest.mark.parametrize("name", ["cnn", "structured_self_attention"])
def test_classes_are_those_of_the_classifier(name, predictor):
    classifier = predictor(name)
    inspection = classifier.inspect(QUESTION)
    expected = classifier.classify([QUESTION])[0]
    panel = inspection.panel(ClassesPanel)
    assert inspection.output == expected.label
    assert dict(zip(panel.labels, panel.probabilities, strict=True)) == pytest.approx(expected.probabilities)
    assert (panel.weights is None) == (panel.site is None) == (name == "cnn")


def test_attention_rows_have_an_axis(predictor):
    inspection = predictor("structured_self_attention").inspect(QUESTION)
    panel, (site,) = inspection.panel(ClassesPanel), inspection.sites
    assert (site.query_axis, site.key_axis, site.path) == ("rows", "source", panel.site)
    assert inspection.axis("rows").labels == ("1", "2", "3")
    torch.testing.assert_close(inspection.maps[site.path][0].weights[0], panel.weights)


def test_an_intervention_changes_the_probability_of_the_class(predictor):
    classifier = predictor("structured_self_attention")
    inspection = classifier.inspect(QUESTION)
    plain = classifier.respond(inspection, nullcontext)
    assert plain.output == inspection.output and plain.log_prob == pytest.approx(inspection.log_prob, abs=1e-6)

    def around():
        return intervene(classifier.model, lambda path, one: torch.zeros_like(one.weights))

    assert classifier.respond(inspection, around).log_prob_of_first != pytest.approx(plain.log_prob, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "output", "options", "sentence"),
    [
        (" ", None, {}, "Type a word"),
        (QUESTION, "HUM", {}, "Leave out the output"),
        (QUESTION, None, {"max_numbers": 1}, "Shorten"),
    ],
)
def test_invalid_inputs_of_an_inspection_are_refused(text, output, options, sentence, predictor):
    with pytest.raises(ValueError, match=sentence):
        predictor("structured_self_attention").inspect(text, output, **options)


def test_unknown_words_have_the_characters_that_were_typed(predictor):
    axis = predictor("cnn").inspect("Where is the ☃ ?").axis("source")
    assert axis.texts == ("Where", "is", "the", "☃", "?") and axis.unknown == (3,)
