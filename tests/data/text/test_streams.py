"""A text as one stream: encoding, decoding, and exact counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.contracts import EOS, UNK
from regard.data.text import Tokenizer, TokenizerSettings
from regard.data.text.streams import decode_text, encode_text, make_stream, unknown_in

# ▁ stands for a space in bpe, and one in the text becomes a space
LETTERS = st.sampled_from("ab dé字 \t.1\n")
TEXTS = st.text(LETTERS, max_size=40)
SAMPLE = ["ab dé字 \t.1", "a a  ab d d  1.", "\tab", "dé字", ""]


def trained(kind, **changes):
    return Tokenizer.train(SAMPLE, TokenizerSettings(kind=kind, vocab_size=40, **{"spaces": "kept", **changes}))


KEPT = {kind: trained(kind) for kind in ("characters", "bpe")}


@pytest.mark.parametrize("kind", KEPT)
@given(text=TEXTS)
def test_a_text_survives_encoding_and_decoding(kind, text):
    ids = encode_text(text, KEPT[kind])
    assert decode_text(ids, KEPT[kind]) == text
    assert ids.count(EOS) == text.count("\n") and UNK not in ids
    if text.strip():
        stream = make_stream(text, KEPT[kind])
        assert stream.ids.tolist() == ids and len(stream) == len(ids)
        assert stream.num_characters == len(text)
        assert stream.num_words == len(text.split()) + text.count("\n")


def test_counts_of_words():
    words = trained("words")
    stream = make_stream("ab  dé字\n\n ab q\n", words)
    assert stream.ids.tolist() == [*words.encode("ab dé字"), EOS, EOS, *words.encode("ab"), UNK, EOS]
    assert (stream.num_words, stream.num_characters, stream.num_unknown) == (len(stream), 15, 1)


def test_a_last_line_without_a_newline_has_no_eos():
    characters = KEPT["characters"]
    assert make_stream("ab\na", characters).ids.tolist() == [*characters.encode("ab"), EOS, *characters.encode("a")]
    assert make_stream("ab\na\n", characters).ids[-1] == EOS
    assert make_stream("ab\na", characters).num_words == 3


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n"])
@pytest.mark.parametrize("kind", ["characters", "words"])
def test_a_text_without_a_word_is_refused(text, kind):
    with pytest.raises(ValueError, match="the text is empty"):
        make_stream(text, trained(kind))
    assert encode_text("", trained(kind)) == []


def test_text_that_spells_a_special_token_is_unknown():
    words = Tokenizer.train(["a <eos> b <unk>"], TokenizerSettings(kind="words"))
    stream = make_stream("a <eos> <pad> b\n", words)
    assert stream.ids.tolist() == [*words.encode("a"), UNK, UNK, *words.encode("b"), EOS]


@pytest.mark.parametrize("kind", KEPT)
def test_unknown_words_are_named_once_in_order(kind):
    actual = unknown_in("ab☃d☃\nZ ab", KEPT[kind])
    assert "".join(actual) == "☃Z"
    assert unknown_in("ab\nd", KEPT[kind]) == []


@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_one_long_line_keeps_its_counts(kind):
    text = "ab d " * 100_000
    stream = make_stream(text, trained(kind))
    assert stream.num_words == 200_000 and stream.num_characters == len(text)
