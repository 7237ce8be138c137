"""Inspections of texts: next-token predictions, the state's bytes, and continuations under an intervention."""

from contextlib import nullcontext

import pytest
import torch

from regard.attention import intervene
from regard.contracts import NextTokenPanel, StatePanel, leaves
from regard.tasks.language_modeling.inspection import named_leaves
from tests.small_models import TEXT


@pytest.mark.parametrize("name", ["lstmn", "gpt"])
def test_predictions_and_state_are_those_of_the_model(name, predictor):
    writer = predictor(name)
    inspection = writer.inspect(TEXT)
    ids = inspection.tokens
    with torch.inference_mode():
        log_probs = writer.model(torch.tensor([ids]))[0].double().log_softmax(-1)
    panel = inspection.panel(NextTokenPanel)
    expected = log_probs[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    assert panel.log_probs[0] is None and panel.log_probs[1:] == pytest.approx(expected.tolist(), abs=1e-5)
    assert inspection.log_prob == pytest.approx(expected.sum().item(), abs=1e-4)
    state = writer.model.start(1)
    with torch.inference_mode():
        for token in ids:
            state = writer.model.step(torch.tensor([token]), state).state
    growth = inspection.panel(StatePanel)
    assert growth.allocated[-1] == sum(one.numel() * one.element_size() for one in leaves(state))
    assert {id(one) for _, one, _ in named_leaves(state)} == {id(one) for one in leaves(state)}
    assert (len(set(growth.filled)) > 1) == (name == "gpt")


def test_a_line_end_is_text_and_no_mark(predictor):
    axis = predictor("gpt").inspect("the cat\nthe dog").axis("text")
    assert "<eos>" in axis.labels and axis.marks == ()


def test_keys_end_at_the_query_and_are_causal(predictor):
    for name in ("lstmn", "gpt"):
        for site in predictor(name).inspect(TEXT).sites:
            assert site.keys_end_at_query and site.is_causal and site.is_stepwise == (name == "lstmn")


def test_an_intervention_changes_the_continuation_and_the_text(predictor):
    writer = predictor("gpt")
    inspection = writer.inspect(TEXT)
    plain = writer.respond(inspection, nullcontext)
    assert len(plain.tokens) == 8 and plain.log_prob_of_first == pytest.approx(inspection.log_prob, abs=1e-4)

    def around():
        return intervene(writer.model, lambda path, one: torch.zeros_like(one.weights))

    assert writer.respond(inspection, around).log_prob_of_first != pytest.approx(inspection.log_prob, abs=1e-3)


@pytest.mark.parametrize("count", [24, 25, 30, 36, 37, 48, 61])
def test_a_text_beyond_the_context_is_inspected_where_its_continuation_begins(count, predictor):
    writer = predictor("gpt")
    words = ("the", "cat", "sat", "on", "the", "mat", ".", "a", "bird")
    text = " ".join(words[number % 9] for number in range(count))
    whole, inspection = writer.encode(text), writer.inspect(text)
    length = len(inspection.tokens)
    # from half the context, which a full one is reduced to, up to the context
    assert 12 < length <= 24 and inspection.tokens == whole[-length:]
    assert inspection.num_dropped == count - length and inspection.drops_start
    assert inspection.axis("text").texts == tuple(text.split()[-length:])
    with torch.inference_mode():
        expected = writer.model(torch.tensor([whole]))[0, -1]
    torch.testing.assert_close(inspection.panel(NextTokenPanel).logits[-1], expected)
    (token, *_) = writer.stream([text], max_tokens=1, temperature=0)
    response = writer.respond(inspection, nullcontext)
    assert response.tokens[0] == token.token


def test_a_state_that_depends_on_the_whole_text_is_inspected_in_full(predictor):
    inspection = predictor("lstmn").inspect("the cat sat . " * 10)
    assert len(inspection.tokens) == 40 and inspection.num_dropped == 0


def test_unknown_words_are_named(predictor):
    assert predictor("gpt").inspect("the zebra sat . " * 10).unknown == ("zebra",)


@pytest.mark.parametrize(
    ("text", "output", "options", "sentence"),
    [
        (" ", None, {}, "Type a word"),
        ("the", "cat", {}, "Leave out the output"),
        (TEXT, None, {"max_numbers": 100}, "Shorten"),
    ],
)
def test_what_cannot_be_inspected_is_refused_with_a_sentence(text, output, options, sentence, predictor):
    with pytest.raises(ValueError, match=sentence):
        predictor("gpt").inspect(text, output, **options)


def test_unknown_words_have_the_characters_that_were_typed(predictor):
    axis = predictor("gpt").inspect("the Zebra\nsat").axis("text")
    assert axis.texts == ("the", "Zebra", "\n", "sat") and axis.unknown == (1,)
