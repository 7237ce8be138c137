"""Inspections of translations are what the model computes."""

from contextlib import nullcontext

import pytest
import torch

from regard import trace
from regard.attention import intervene
from regard.contracts import EOS, AlignmentPanel, LengthLimit, PaddedTokens

TEXT = "5 May 2024"


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    # a barely trained model does not end its output
    monkeypatch.setattr("regard.tasks.translation.inspection.LIMIT", LengthLimit(factor=1.0, extra=0))


@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_maps_and_alignment_equal_those_of_the_model(name, predictor):
    translator = predictor(name)
    inspection = translator.inspect(TEXT)
    source, prefix = inspection.tokens.source, inspection.tokens.prefix
    assert source[-1] == EOS and inspection.axis("source").labels == tuple(translator.tokenizers.source.tokens(source))
    with torch.inference_mode(), trace(translator.model) as maps:
        translator.model(PaddedTokens.from_lists([source]), PaddedTokens.from_lists([prefix]))
    assert {site.path for site in inspection.sites} == set(maps) == set(inspection.maps)
    for site in inspection.sites:
        sizes = [len(inspection.axis(axis).labels) for axis in (site.query_axis, site.key_axis)]
        recorded = torch.cat([one.weights for one in inspection.maps[site.path]], dim=-2)
        expected = torch.cat([one.weights for one in maps[site.path]], dim=-2)
        assert list(recorded.shape[-2:]) == sizes
        torch.testing.assert_close(recorded, expected)
    assert inspection.panel(AlignmentPanel).weights.shape == (len(prefix), len(source))


def test_axes_follow_from_the_shapes_of_a_transformer(predictor):
    axes = {
        site.path: (site.query_axis, site.key_axis, site.is_causal)
        for site in predictor("transformer").inspect(TEXT).sites
    }
    assert axes["encoder.0.attention"] == ("source", "source", False)
    assert axes["decoder.0.self_attention"] == ("prefix", "prefix", True)
    assert axes["decoder.0.cross_attention"] == ("target", "source", False)


def test_a_given_output_is_forced(predictor):
    translator = predictor("bahdanau")
    inspection = translator.inspect(TEXT, "2024年3月5日")
    assert inspection.forced and inspection.output == "2024年3月5日" and inspection.response is None
    assert inspection.log_prob == pytest.approx(translator.score([TEXT], ["2024年3月5日"])[0], abs=1e-4)


def test_an_intervention_changes_the_response(predictor):
    translator = predictor("transformer")
    inspection = translator.inspect(TEXT)
    response = translator.respond(inspection, nullcontext)
    assert response.output == inspection.output == inspection.response.output
    assert response.log_prob_of_first == pytest.approx(inspection.log_prob, abs=1e-4)

    def around():
        return intervene(translator.model, lambda path, one: torch.zeros_like(one.weights))

    assert translator.respond(inspection, around).log_prob_of_first != pytest.approx(inspection.log_prob, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [("", {}, "Type a word"), (TEXT, {"max_numbers": 100}, "Shorten the text"), ("\ud800", {}, "UTF-8")],
)
def test_invalid_inputs_of_an_inspection_are_refused(text, options, sentence, predictor):
    with pytest.raises(ValueError, match=sentence):
        predictor("transformer").inspect(text, **options)


def test_bytes_are_decoded_as_utf_8_and_samples_are_sources(predictor):
    translator = predictor("bahdanau")
    assert translator.parse("5月".encode()) == "5月" and translator.parse("a") == "a"
    with pytest.raises(ValueError, match="not text in UTF-8: byte 1"):
        translator.parse(b"a\xff")
    samples = translator.samples()
    assert len(samples) == 6 and all(translator.inspect(text).output for text in samples[:2])


def test_a_model_without_attention_has_no_sites(predictor):
    inspection = predictor("seq2seq").inspect(TEXT)
    assert inspection.sites == () and not inspection.maps and inspection.panels == ()


def test_unknown_tokens_of_a_source_have_the_characters_that_were_typed(predictor):
    translator = predictor("bahdanau")
    inspection = translator.inspect("5 May 我吃")
    axis = inspection.axis("source")
    assert inspection.unknown == ("我", "吃")
    assert axis.texts == ("5", " ", "M", "a", "y", " ", "我", "吃", "") and axis.unknown == (6, 7)
    assert [axis.labels[index] for index in axis.unknown] == ["<unk>", "<unk>"]
    # predicted tokens were not typed
    assert inspection.axis("target").texts == () and inspection.axis("prefix").texts == ()


def test_unknown_tokens_of_a_given_output_have_the_characters_that_were_typed(predictor):
    inspection = predictor("bahdanau").inspect(TEXT, "5☃月")
    target, prefix = inspection.axis("target"), inspection.axis("prefix")
    assert target.texts == ("5", "☃", "月", "") and target.unknown == (1,)
    assert prefix.texts == ("", "5", "☃", "月") and prefix.unknown == (2,)


def test_a_source_that_is_cut_keeps_its_texts_in_line_with_its_tokens(predictor):
    axis = predictor("bahdanau").inspect("1" * 1200, "5").axis("source")
    assert len(axis.texts) == len(axis.labels) == 1000 and axis.texts[-2:] == ("1", "")


def test_a_translation_names_what_its_source_has_outside_the_vocabulary(predictor):
    known, unknown, empty = predictor("bahdanau").predict([TEXT, "5 May 我", ""], beam=1)
    assert (known.unknown, unknown.unknown, empty.unknown) == ((), ("我",), ())
    assert predictor("bahdanau").unknown_in("5月", is_output=True) == []
