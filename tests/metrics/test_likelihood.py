"""The likelihood of a text: every token counts once for any pieces; and the distances of attention."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.contracts import EOS, PAD
from regard.contracts.report import RunInfo
from regard.data.text.streams import Stream
from regard.decoding import nats_of, pieces, score_continuation
from regard.metrics import SPANS, Likelihood, SpanMass, span_sums
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.tasks import read_report, write_report
from regard.tasks.language_modeling.evaluate import make_report, spans

VOCAB = 9
IDS = torch.tensor([5, 6, 2, 7, 8, 2, 4, 4, 3, 5, 2, 6, 8, 8, 2, 7, 5, 4, 6, 2, 2, 5, 8])
SIZES = {
    "lstm": {"embedding_size": 6, "hidden_size": 6},
    "key_value_predict": {"embedding_size": 6, "hidden_size": 6, "window": 4},
    "gpt": {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "feed_forward_size": 8, "context": 6},
}


def make(name):
    torch.manual_seed(0)
    entry = LANGUAGE_MODELS[name]
    model = entry.build(entry.config(vocab_size=VOCAB, dropout=0.5, **SIZES[name])).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def plain_loop(model, ids):
    """One token after the other."""
    model.eval()
    state, token, nats = model.start(1), EOS, 0.0
    with torch.no_grad():
        for following in ids.tolist():
            output = model.step(torch.tensor([token]), state)
            nats -= output.logits.log_softmax(-1)[0, following].item()
            state, token = output.state, following
    return nats


@pytest.mark.parametrize("name", SIZES)
def test_likelihood_equals_a_plain_loop_for_any_piece_size(name):
    model = make(name)
    expected = plain_loop(model, IDS)
    model.train()
    for piece in (1, 2, 5, 6, 7, 22, 23, 256):
        assert nats_of(model, IDS, piece=piece) == pytest.approx(expected, abs=1e-9)
    assert model.training, "the mode is restored"


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(("rows", "piece"), [(2, 5), (5, 3), (23, 4), (99, 4)])
def test_parallel_rows_begin_with_the_start_state(name, rows, piece):
    model = make(name)
    longest = -(-len(IDS) // min(rows, len(IDS)))
    before = torch.cat([torch.tensor([EOS]), IDS[:-1]])
    expected = 0.0
    with torch.no_grad():
        for first in range(0, len(IDS), longest):
            logits = model.eval()(before[None, first : first + longest])[0]
            expected += nn.functional.cross_entropy(logits, IDS[first : first + longest], reduction="sum").item()
    assert nats_of(model, IDS, rows=rows, piece=piece) == pytest.approx(expected, abs=1e-9)


def test_fresh_pieces_each_begin_with_the_start():
    model = make("lstm")
    expected = 0.0
    for first in range(0, len(IDS), 5):
        before = torch.cat([IDS.new_tensor([EOS]), IDS])[first : first + 5]
        with torch.no_grad():
            logits = model.eval()(before[None])[0][: len(IDS) - first]
        expected += nn.functional.cross_entropy(logits, IDS[first : first + 5], reduction="sum").item()
    for rows in (1, 2, 9):
        assert nats_of(model, IDS, rows=rows, piece=5, fresh=True) == pytest.approx(expected, abs=1e-9)


@given(count=st.integers(1, 60), rows=st.integers(1, 9), piece=st.integers(1, 20), fresh=st.booleans())
def test_every_token_is_predicted_once(count, rows, piece, fresh):
    ids = torch.arange(4, count + 4)
    label_ids, input_ids = [], []
    for tokens, labels in pieces(ids, rows=rows, piece=piece, fresh=fresh):
        assert labels.shape[0] <= rows and labels.shape[1] <= piece
        label_ids += labels[labels != PAD].tolist()
        input_ids += tokens[labels != PAD].tolist()
    assert sorted(label_ids) == ids.tolist()
    assert all(token == (EOS if label == 4 else label - 1) for token, label in zip(input_ids, label_ids, strict=True))


def test_perplexity_per_word_is_comparable_across_tokenizers():
    letters = Likelihood(nats=30.0, tokens=50, words=10, characters=50)
    words = Likelihood(nats=30.0, tokens=10, words=10, characters=50)
    assert letters.perplexity == words.perplexity == pytest.approx(math.exp(3.0))
    assert letters.bits_per_character == words.bits_per_character == pytest.approx(30.0 / 50 / math.log(2))
    assert letters.perplexity_per_token == pytest.approx(math.exp(0.6)) and words.loss == 3.0
    assert Likelihood(nats=1e6, tokens=1, words=1, characters=1).perplexity == math.inf


def test_an_empty_text_raises_an_error():
    with pytest.raises(ValueError, match="the likelihood of 0 tokens is undefined"):
        Likelihood(nats=0.0, tokens=0, words=1, characters=1)
    with pytest.raises(ValueError, match="there is no token to predict"):
        nats_of(make("lstm"), IDS[:0])


def test_spans_by_hand():
    weights = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.9, 0.0, 0.1, 0.0], [0.4, 0.3, 0.2, 0.1]])
    allowed = torch.tensor([[False, False, False, False], [True, False, True, False], [True, True, True, True]])
    actual = SpanMass.of(span_sums(weights, allowed))
    # the second query may attend to two keys: number 1 is the third, number 2 the first
    assert actual.count == 2 and len(actual.within) == len(SPANS)
    assert actual.within == pytest.approx([(0.1 + 0.1) / 2, (1.0 + 0.3) / 2, 1.0, 1.0, 1.0])
    assert actual.distance == pytest.approx((0.1 * 1 + 0.9 * 2 + 0.1 * 1 + 0.2 * 2 + 0.3 * 3 + 0.4 * 4) / 2)
    both = span_sums(weights[:2], allowed[:2]) + span_sums(weights[2:], allowed[2:])
    assert SpanMass.of(both).within == pytest.approx(actual.within)


def test_spans_with_heads_and_without_a_mask():
    weights = torch.softmax(torch.randn(2, 3, 4, 20), dim=-1)
    actual = SpanMass.of(span_sums(weights, None))
    assert actual.count == 24
    assert actual.within == pytest.approx([weights[..., -span:].sum(-1).mean().item() for span in SPANS], rel=1e-5)
    one = torch.ones(4, 20, dtype=torch.bool).tril(16)
    assert SpanMass.of(span_sums(weights, one)).count == 24, "a mask for all heads"


@pytest.mark.parametrize("context", [1, 2, 5, 6, 40])
def test_every_token_counts_once_although_half_a_context_is_recomputed(context):
    torch.manual_seed(0)
    entry = LANGUAGE_MODELS["gpt"]
    model = entry.build(entry.config(vocab_size=VOCAB, **SIZES["gpt"] | {"context": context}))
    stream = Stream(ids=IDS.numpy().astype("int32"), num_words=len(IDS), num_characters=len(IDS))
    assert {mass.count for mass in spans(model, stream).values()} == {2 * len(IDS)}, "two heads attend"


def test_a_model_without_attention_has_no_spans():
    with pytest.raises(ValueError, match="no query could attend to any key"):
        SpanMass.of(span_sums(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool)))


def test_a_report_has_every_figure_and_survives_json():
    likelihood = Likelihood(nats=30.0, tokens=50, words=10, characters=50, unknown=3)
    mass = SpanMass(within=(0.1, 0.2, 0.3, 0.4, 0.5), distance=4.5, count=7)
    info = RunInfo(
        task="language_modeling", system="gpt", data="text", split="test", examples=2, parameters=9, steps=1, seed=0
    )
    report = make_report(info, likelihood, reading="one stream, the state carried", distances={"layers.0": mass})
    assert read_report(write_report(report)) == report
    assert report.metrics[0].name == "perplexity" and report.metrics[0].value == likelihood.perplexity
    assert report.metric("loss").value == 30.0 / 50 and report.table("counts").rows == ((50, 10, 50, 3, 30.0),)
    assert report.table("attention_distance").rows == (("layers.0", *mass.within, 4.5, 7),)
    letters = make_report(info, Likelihood(nats=1e3, tokens=5, words=5, characters=5), reading="", distances={})
    assert format(letters.metrics[0].value, letters.metrics[0].format) == "7.23e+86"
    assert letters.table("attention_distance") is None


@pytest.mark.parametrize("name", SIZES)
def test_the_score_of_a_continuation_equals_steps(name):
    model = make(name).eval()
    ids = IDS.tolist()
    with torch.no_grad():
        log_probs = model(IDS[None])[0].log_softmax(dim=-1)
    for cut in (1, 4, len(ids)):
        expected = sum(log_probs[place - 1, ids[place]].item() for place in range(cut, len(ids)))
        # a moving window has less context than the whole text
        tolerance = {"rel": 1e-9} if name != "gpt" else {"rel": 0.2}
        assert score_continuation(model, ids[:cut], ids[cut:]) == pytest.approx(expected, **tolerance)
    with pytest.raises(ValueError, match="the prompt has no token"):
        score_continuation(model, [], ids)
