"""Tokenizers: text survives encoding, special tokens stay special, equal texts give equal vocabularies."""

import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from itertools import pairwise

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from regard.contracts import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from regard.data.text import Pair, Tokenizer, Tokenizers, TokenizerSettings
from regard.data.text.tokenizer import MAX_WORD, TOKENIZER_KINDS

LINES = [
    "A man rides a bike, and a dog runs behind the man.",
    "Two young girls don't play outside in 2024; they read 3.14 books!",
    "Ein Mann fährt Fahrrad, während ein Hund größer wird.",
    "我喜欢猫。他在2024年3月5日骑自行车。",
    "日本語のデーターはカタカナです。猫が好き。",
    "رجل يركب دراجة في الشارع، والكلب يجري.",
    "café cafe\u0301 🙂👩‍👩‍👧 fine",
] * 2


def train(kind, lines=LINES, **changes):
    return Tokenizer.train(lines, TokenizerSettings(kind=kind, **changes))


trained = cache(train)


@pytest.fixture(params=TOKENIZER_KINDS)
def tokenizer(request):
    return trained(request.param)


def squeezed(text):
    return " ".join(text.replace("▁", " ").split())


@pytest.mark.parametrize("line", LINES[: len(LINES) // 2])
def test_known_text_survives_encoding_and_decoding(tokenizer, line):
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == line
    assert UNK not in ids
    assert tokenizer.decode(tokenizer.encode(f"  {line}\t\u3000\n")) == line


ALPHABET = sorted(set("".join(LINES)) | set(" \t\n\u00a0\u202f\u3000\x1c▁"))


@given(text=st.text(ALPHABET))
@pytest.mark.parametrize("kind", [kind for kind in TOKENIZER_KINDS if kind != "words"])
def test_text_of_known_characters_survives_encoding_and_decoding(kind, text):
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == squeezed(text)
    assert all(UNK < token < tokenizer.vocab_size for token in ids)
    words = tokenizer.words(ids)
    assert words == sorted(words)
    assert len(set(words)) == len(squeezed(text).split(" ")) if ids else not words
    assert len(tokenizer.spans(text)) == len(ids)


@given(text=st.text(st.characters(codec="utf-8")))
@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_no_text_raises_an_error_or_becomes_a_special_token(kind, text):
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert all(token >= UNK for token in ids)
    tokenizer.decode(ids)
    assert tokenizer.encode_batch([text, text]) == [ids, ids]


def test_text_that_spells_a_special_token_is_text():
    spelled = ["<eos>", "a<eos>b", "<bos><pad> <eos>", "say <eos> or <pad>"]
    for kind in TOKENIZER_KINDS:
        tokenizer = train(kind, [*LINES, *spelled * 50])
        for text in spelled:
            ids = tokenizer.encode(text)
            assert ids and not {PAD, BOS, EOS} & set(ids), (kind, text)
            if kind != "words":
                assert tokenizer.decode(ids) == text
        again = Tokenizer.from_json(tokenizer.to_json())
        assert again.encode_batch(spelled) == tokenizer.encode_batch(spelled)


def test_special_tokens_are_the_first_ids_and_only_unk_is_decoded(tokenizer):
    assert tuple(tokenizer.tokens(range(4))) == SPECIAL_TOKENS
    ids = tokenizer.encode("A man ☃ .")
    assert UNK in ids
    decoded = tokenizer.decode([BOS, *ids, EOS, PAD, PAD])
    assert "<unk>" in decoded and "<eos>" not in decoded and "<pad>" not in decoded
    assert tokenizer.encode("") == tokenizer.encode(" \n") == [] and tokenizer.decode([]) == ""


def test_words_are_split_at_spaces_only():
    tokenizer = train("words", ["a man rides a bike .", "it 's a dog-like bike"])
    ids = tokenizer.encode("a  man rides a dog-like bike .")
    assert tokenizer.tokens(ids) == ["a", "man", "rides", "a", "dog-like", "bike", "."]
    assert tokenizer.words(ids) == list(range(7))
    assert tokenizer.decode(tokenizer.encode("a cat .")) == "a <unk> ."
    # text that contains <unk>
    assert tokenizer.encode("<unk> man")[0] == UNK


def test_settings_are_stored():
    assert train("words", ["b b a a c"], min_count=2).tokens(range(6)) == [*SPECIAL_TOKENS, "a", "b"]
    assert train("words", ["b b a c"], vocab_size=5).vocab_size == 5
    assert train("words", ["Ein EIN ein"], lowercase=True).vocab_size == 5
    assert train("characters", ["ab a"], vocab_size=5).decode([4, 4]) == "aa"
    assert train("bpe", vocab_size=30).vocab_size == 30
    lower = train("bpe", lowercase=True)
    assert lower.decode(lower.encode("A MAN RIDES")) == "a man rides"


def test_chinese_is_split_into_pieces_without_spaces():
    tokenizer = train("bpe", ["我喜欢猫。", "我喜欢狗。", "他喜欢猫。", "你喜欢鱼吗？"] * 10)
    assert len(tokenizer.encode("我喜欢猫。")) < 6
    assert "。" in tokenizer.tokens(tokenizer.encode("我喜欢猫。"))


def digests():
    lines = [chr(97 + i % 26) * (i % 7) + f" w{i % 13} 猫{chr(0x4E00 + i * 7 % 211)} word{i}" for i in range(600)]
    trained = [train(kind, lines, vocab_size=300) for kind in TOKENIZER_KINDS]
    return [hashlib.md5(tokenizer.to_json().encode()).hexdigest() for tokenizer in trained]


def test_the_same_text_gives_the_same_vocabulary_in_every_process():
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_tokenizer as t; print(t.digests())"
    )
    here = digests()
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert here == digests() and there.stdout.strip() == str(here)


def test_json_round_trip(tokenizer):
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.kind == tokenizer.kind and again.vocab_size == tokenizer.vocab_size
    assert again.encode_batch(LINES) == tokenizer.encode_batch(LINES)
    assert again.to_json() == tokenizer.to_json()


def test_foreign_or_broken_files_are_refused(tokenizer):
    text = tokenizer.to_json()
    for broken in (text[: len(text) // 2], "", "{}", "[]", "no", "null"):
        with pytest.raises(ValueError, match="not a complete tokenizer file"):
            Tokenizer.from_json(broken)
    parts = json.loads(text)
    if tokenizer.kind == "words":
        parts["model"]["vocab"] = {"[UNK]": 0, "a": 1}
        parts["added_tokens"] = []
        with pytest.raises(ValueError, match=r"the first tokens of this tokenizer are \[UNK\], a, None, None"):
            Tokenizer.from_json(json.dumps(parts))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "bep"}, "there is no tokenizer 'bep'; the nearest is 'bpe'"),
        ({"vocab_size": 4}, "vocab_size is 4, and 4 are special tokens"),
        ({"min_count": 0}, "min_count is 0"),
    ],
)
def test_wrong_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        TokenizerSettings(**changes)


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_no_text_is_refused(kind, lines):
    with pytest.raises(ValueError, match="no text to learn a vocabulary from"):
        train(kind, lines)


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
@pytest.mark.parametrize("lines", [["a"], ["。"], ["a b c d e f g"], ["x" * 5000]])
def test_tiny_and_odd_text_is_enough(kind, lines):
    tokenizer = train(kind, lines)
    assert tokenizer.decode(tokenizer.encode(lines[0])) == lines[0]


def test_joint_and_separate():
    pairs = [Pair("a man", "ein Mann"), Pair("a dog", "ein Hund")]
    settings = TokenizerSettings(kind="words")
    joint, separate = Tokenizers.train(pairs, settings, joint=True), Tokenizers.train(pairs, settings)
    assert joint.source is joint.target and joint.joint
    assert UNK not in joint.source.encode("ein man")
    assert separate.source.encode("ein") == [UNK] and not separate.joint


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_links_between_tokens(kind):
    pair = Pair("March 5, 2024", "2024 3 5", ((0, 5, 5, 6), (6, 7, 7, 8), (9, 13, 0, 4)))
    tokenizers = Tokenizers.train([pair] * 3, TokenizerSettings(kind=kind), joint=True)
    source = tokenizers.source.words(tokenizers.source.encode(pair.source))
    target = tokenizers.target.words(tokenizers.target.encode(pair.target))
    assert {(source[i], target[j]) for i, j in tokenizers.links(pair)} == {(0, 1), (1, 2), (2, 0)}
    assert tokenizers.links(Pair("March", "3")) is None


@pytest.mark.unchecked
def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"there is no tokenizer 'unigram'.*Known: bpe, words, characters"):
        TokenizerSettings(kind="unigram")
    model = tokenizers.models.Unigram([(mark, 0.0) for mark in SPECIAL_TOKENS], UNK, False)
    with pytest.raises(
        ValueError, match=r"the model of this tokenizer is Unigram.*Train one of bpe, words, characters"
    ):
        Tokenizer.from_json(tokenizers.Tokenizer(model).to_str())


LONG = "acgt" * 5000 + "日本" * 3000 + "7" * 4000 + "!?" * 2000


def test_a_very_long_word_is_cut_and_no_character_is_lost():
    tokenizer = Tokenizer.train([LONG, "the cat, acgt 77"], TokenizerSettings(vocab_size=400))
    ids = tokenizer.encode(LONG)
    assert tokenizer.decode(ids) == LONG
    spans = tokenizer.spans(LONG)
    assert spans[0][0] == 0 and spans[-1][1] == len(LONG)
    assert all(start == end for (_, end), (start, _) in pairwise(spans))
    # no merge is wider than a piece
    assert max(map(len, tokenizer.tokens(ids))) <= MAX_WORD


def test_a_saved_tokenizer_without_the_limit_answers_alike_and_does_not_stall():
    lines = ["the cat sat on the mat, 12 times", "日本語のテキスト", "a  b"] * 3
    tokenizer = Tokenizer.train(lines, TokenizerSettings(vocab_size=80))
    document = json.loads(tokenizer.to_json())
    # as it was saved before there was a limit
    document["pre_tokenizer"] = document["pre_tokenizer"]["pretokenizers"][0]
    former = Tokenizer.from_json(json.dumps(document))
    for text in (*lines, "unknown ☃ words", "x" * (MAX_WORD - 1)):
        assert former.encode(text) == tokenizer.encode(text)
        # the library without the limit
        library = tokenizers.Tokenizer.from_str(json.dumps(document))
        library.encode_special_tokens = True
        assert library.encode(text, add_special_tokens=False).ids == tokenizer.encode(text)
    assert former.encode(LONG) == tokenizer.encode(LONG)
    # the limit is added once, however often the tokenizer is saved and read
    assert Tokenizer.from_json(tokenizer.to_json()).to_json() == tokenizer.to_json() == former.to_json()


def test_a_panic_of_the_library_is_a_sentence(capfd):
    document = json.loads(Tokenizer.train(["a cat"], TokenizerSettings(vocab_size=20)).to_json())
    pattern = {"type": "Split", "pattern": {"Regex": "(a|a|aa)+$"}, "behavior": "Isolated", "invert": False}
    tokenizer = Tokenizer.from_json(json.dumps({**document, "pre_tokenizer": pattern}))
    text = "a" * 60 + "b"
    for call in (tokenizer.encode, tokenizer.spans, lambda text: tokenizer.encode_batch([text])):
        with pytest.raises(ValueError, match=r"the tokenizer cannot encode this text .* Restore tokenizer\.json"):
            call(text)
    # the library prints its own message
    capfd.readouterr()


def edited_tokenizer(edit):
    """A tokenizer whose file was edited."""
    parts = json.loads(Tokenizer.train(["a b c d"], TokenizerSettings(kind="words")).to_json())
    edit(parts)
    return json.dumps(parts)


@pytest.mark.parametrize("number", [9, 10**6, 2**32 - 1])
def test_ids_beyond_the_vocabulary_are_refused(number):
    text = edited_tokenizer(lambda parts: parts["model"]["vocab"].update(d=number))
    with pytest.raises(ValueError, match=rf"has the id {number}, and there are 8 tokens"):
        Tokenizer.from_json(text)


@pytest.mark.parametrize("kind", ["words", "bpe"])
@pytest.mark.parametrize("token", ["missing", "a"])
def test_another_token_for_unknown_text_is_refused(kind, token):
    parts = json.loads(Tokenizer.train(["a b c d"], TokenizerSettings(kind=kind)).to_json())
    parts["model"]["unk_token"] = token
    with pytest.raises(ValueError, match=f"'{token}' for unknown text, expected '<unk>'"):
        Tokenizer.from_json(json.dumps(parts))
