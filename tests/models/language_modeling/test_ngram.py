"""The n-gram model by hand, against a second implementation with dictionaries, and on the Penn Treebank."""

import gzip
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.contracts import BOS, EOS, PAD, UNK, select_batch
from regard.models.language_modeling.ngram import NEVER, NGram, NGramConfig

FOLDER = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[4] / "shared" / "data")) / "ptb"
A, B, C = 4, 5, 6
LINES = [[A, B], [A, B], [A, B, C], [A, C]]


def stream(lines):
    return torch.tensor([token for line in lines for token in [*line, EOS]])


def chances(model, context):
    """p(. | context), with the context from the beginning of a line."""
    state = model.start(1)
    for token in context:
        state = model.features(torch.tensor([[token]]), state).state
    return model.readout(state.double())[0].exp()


def counted(order, lines=LINES, vocab_size=7):
    return NGram.count(stream(lines), NGramConfig(vocab_size=vocab_size, order=order))


# a b </s>   a b </s>   a b c </s>   a c </s>
#
# bigrams, number of times:   <s> a 4   a b 3   b </s> 2   c </s> 2   b c 1   a c 1
# counts of counts:           n1 = 2, n2 = 2, n3 = 1, n4 = 1,   Y = 2 / (2 + 2*2) = 1/3
# discounts:                  D1 = 1 - 2 Y 2/2 = 1/3,   D2 = 2 - 3 Y 1/2 = 3/2,   D3+ = 3 - 4 Y 1/1 = 5/3
# words, different words before:   a 1 (<s>)   b 1 (a)   c 2 (a, b)   </s> 2 (b, c),   together 6
# counts of counts:           n1 = 2, n2 = 2, n3 = 0: too small a text, so D = 1/2, 1, 3/2
# shares:  a, b (1 - 1/2)/6 = 1/12   c, </s> (2 - 1)/6 = 1/6,   weight (1/2 + 1/2 + 1 + 1)/6 = 1/2 of 1/5 each
UNIGRAM = {A: 11 / 60, B: 11 / 60, C: 16 / 60, EOS: 16 / 60, UNK: 6 / 60}


def test_bigrams_by_hand():
    model = counted(2)
    assert model.config.entries == (5, 6)  # <s> a b c </s>, and the six above
    # after <s>: share of a (4 - 5/3)/4 = 7/12, weight (5/3)/4 = 5/12
    begin = {word: 5 / 12 * chance for word, chance in UNIGRAM.items()}
    begin[A] += 7 / 12
    # after a: shares of b (3 - 5/3)/4 = 1/3 and c (1 - 1/3)/4 = 1/6, weight (5/3 + 1/3)/4 = 1/2
    after_a = {A: 11 / 120, B: 51 / 120, C: 36 / 120, EOS: 16 / 120, UNK: 6 / 120}
    # after b: shares of </s> (2 - 3/2)/3 = 1/6 and c (1 - 1/3)/3 = 2/9, weight (3/2 + 1/3)/3 = 11/18
    after_b = {word: 11 / 18 * chance for word, chance in UNIGRAM.items()}
    after_b[EOS] += 1 / 6
    after_b[C] += 2 / 9
    # after c: share of </s> (2 - 3/2)/2 = 1/4, weight (3/2)/2 = 3/4
    after_c = {word: 3 / 4 * chance for word, chance in UNIGRAM.items()}
    after_c[EOS] += 1 / 4
    contexts = {(): begin, (A,): after_a, (B,): after_b, (C, B): after_b, (C,): after_c, (B, EOS): begin}
    for context, expected in {**contexts, (UNK,): UNIGRAM, (A, UNK): UNIGRAM}.items():
        assert sum(expected.values()) == pytest.approx(1)
        discount = chances(model, context)
        assert {word: discount[word].item() for word in expected} == pytest.approx(expected, rel=1e-6)
        assert discount[PAD] == discount[BOS] == pytest.approx(NEVER)


def test_trigrams_by_hand():
    # trigrams: <s> a b 3   a b </s> 2   <s> a c 1   a b c 1   b c </s> 1   a c </s> 1
    # n1 = 4, n2 = 1, n3 = 1, n4 = 0,  Y = 4/6,  D1 = 1 - 2 Y 1/4 = 2/3,  D2 = 2 - 3 Y 1 = 0,  D3+ = 3
    # bigrams, words before: a b 1   a c 1   b </s> 1   b c 1   c </s> 2;  <s> a begins its line and has the count 4
    # n1 = 4, n2 = 1, n3 = 0: D = 1/2, 1, 3/2
    model = counted(3)
    assert model.config.entries == (5, 6, 6)
    # p(a | <s>): share (4 - 3/2)/4 = 5/8, weight 3/8; no trigram changes it
    assert chances(model, ())[A].item() == pytest.approx(5 / 8 + 3 / 8 * 11 / 60)
    # p(b | a) below: share (1 - 1/2)/2 = 1/4, weight 1/2, so 1/4 + 1/2 * 11/60 = 41/120
    # p(b | <s> a): share (3 - 3)/4 = 0, weight (3 + 2/3)/4 = 11/12
    assert chances(model, (A,))[B].item() == pytest.approx(11 / 12 * 41 / 120)
    # p(c | <s> a): share (1 - 2/3)/4 = 1/12, below 1/4 + 1/2 * 16/60 = 46/120
    assert chances(model, (A,))[C].item() == pytest.approx(1 / 12 + 11 / 12 * 46 / 120)
    # b a does not occur: p(b | b a) = p(b | a)
    assert chances(model, (B, A))[B].item() == pytest.approx(41 / 120)


def slow_chance(lines, order, vocab_size):
    """Modified Kneser-Ney as a recursion over dictionaries."""
    times, before = Counter(), {}
    for line in lines:
        words = (BOS, *line, EOS)
        for size in range(1, order + 1):
            for end in range(size, len(words) + 1):
                gram = words[end - size : end]
                times[gram] += 1
                if end > size:
                    before.setdefault(gram, set()).add(words[end - size - 1])
    counts = {}
    for gram, number in times.items():
        raw = len(gram) == order or gram[0] == BOS
        counts[gram] = number if raw else len(before[gram])
    del counts[BOS,]
    discounts = {}
    for size in range(1, order + 1):
        n = Counter(count for gram, count in counts.items() if len(gram) == size)
        discounts[size] = [0, 0.5, 1, 1.5]
        if n[1] and n[2] and n[3]:
            y = n[1] / (n[1] + 2 * n[2])
            discount = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
            discounts[size] = discount if min(discount) >= 0 else discounts[size]

    def chance(context, word):
        if context is None:
            return 1 / (vocab_size - 2)
        shorter = context[1:] if context else None
        followers = {gram: count for gram, count in counts.items() if gram[:-1] == context}
        total, discount_of_count = sum(followers.values()), discounts[len(context) + 1]
        if not total:
            return chance(shorter, word)
        count = counts.get((*context, word), 0)
        discounted = sum(discount_of_count[min(other, 3)] for other in followers.values())
        return (count - discount_of_count[min(count, 3)]) / total + discounted / total * chance(shorter, word)

    return chance


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_counts_equal_those_of_dictionaries(order):
    generator = np.random.default_rng(order)
    vocab_size = 9
    # rare and common words; lines of 0 to 6 words
    lines = [list(3 + generator.geometric(0.4, size=size).clip(1, 5)) for size in generator.integers(0, 7, size=40)]
    model, chance = counted(order, lines, vocab_size), slow_chance(lines, order, vocab_size)
    for _ in range(12):
        context = [int(word) for word in generator.integers(2, vocab_size, size=generator.integers(0, 6))]
        line = context[len(context) - context[::-1].index(EOS) :] if EOS in context else context
        last_words = tuple([BOS, *line][len(line) + 2 - order :] if order <= len(line) + 1 else [BOS, *line])
        discount = chances(model, context)
        assert discount.sum().item() == pytest.approx(1, abs=1e-5)
        for word in range(EOS, vocab_size):
            assert discount[word].item() == pytest.approx(chance(last_words, word), rel=1e-5)


def test_the_loss_is_that_of_the_distribution():
    model = counted(3)
    tokens = torch.tensor([[A, B, C, EOS, A, C], [C, C, UNK, EOS, EOS, B]])
    labels = torch.tensor([[B, C, EOS, A, PAD, EOS], [A, UNK, B, BOS, EOS, PAD]])
    features = model.features(tokens, model.start(2)).features
    table = model.readout(features).log_softmax(dim=-1)
    expected = -table.gather(-1, labels[..., None])[..., 0][labels != PAD].sum()
    assert model.readout.loss(features, labels).item() == pytest.approx(expected.item(), rel=1e-5)
    smooth = model.readout.loss(features, labels, label_smoothing=0.1)
    whole = torch.nn.functional.cross_entropy(
        table.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=0.1
    )
    assert smooth.item() == pytest.approx(whole.item(), rel=1e-5)


@pytest.mark.parametrize("order", [1, 3, 5])
def test_steps_and_pieces_equal_the_whole(order):
    model = counted(order)
    tokens = torch.tensor([[A, B, C, EOS, A, C, B], [C, EOS, EOS, UNK, A, B, A]])
    whole = model(tokens)
    state, steps = model.start(2), []
    for column in tokens.unbind(dim=1):
        output = model.step(column, state)
        state = output.state
        steps.append(output.logits)
    assert torch.equal(torch.stack(steps, dim=1), whole)
    first = model.features(tokens[:, :3], model.start(2))
    none = model.features(tokens[:, :0], first.state)
    rest = model.features(tokens[:, 3:], none.state)
    assert torch.equal(model.readout(rest.features), whole[:, 3:])
    swapped = select_batch(first.state, torch.tensor([1]))
    assert torch.equal(model.readout(model.features(tokens[1:, 3:], swapped).features), whole[1:, 3:])


def test_saving_and_loading_gives_equal_outputs():
    model = counted(4)
    again = NGram(model.config)
    again.load_state_dict(model.state_dict(), strict=True)
    tokens = torch.tensor([[A, B, C]])
    assert torch.equal(again(tokens), model(tokens))
    assert not list(model.parameters())


def test_a_model_of_an_empty_text_and_orders_longer_than_every_line():
    uniform = NGram(NGramConfig(vocab_size=7))(torch.tensor([[A, B]]))
    assert uniform[..., EOS:].exp().allclose(torch.tensor(0.2))
    short = counted(5, [[A]])
    assert short.config.entries == (3, 2, 1, 0, 0)
    assert chances(short, (A, B, C)).sum().item() == pytest.approx(1)
    # an incomplete last line counts up to its end
    assert NGram.count(np.array([A, EOS, B]), NGramConfig(vocab_size=7, order=2)).config.entries == (4, 3)


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([], "0 tokens to count"),
        ([A, BOS, EOS], "which are not part of a text"),
        ([A, 7, EOS], "vocab_size is 7"),
    ],
)
def test_invalid_texts_are_refused(ids, sentence):
    with pytest.raises(ValueError, match=sentence):
        NGram.count(torch.tensor(ids, dtype=torch.int64), NGramConfig(vocab_size=7, order=2))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"order": 0}, "order is 0"), ({"vocab_size": 2}, "vocab_size is 2"), ({"entries": (3,)}, "1 entries for order")],
)
def test_invalid_configs_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        NGramConfig(**wrong)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the Penn Treebank in the data folder (REGARD_DATA)")
def test_penn_treebank():
    """Test perplexity of order 5, to compare with the published KN-5 (141)."""
    texts = {}
    for split in ("train", "test"):
        with gzip.open(FOLDER / f"ptb.{split}.txt.gz", "rt", encoding="utf-8") as file:
            texts[split] = [line.split() for line in file]
    vocabulary = {"<pad>": PAD, "<bos>": BOS, "<eos>": EOS, "<unk>": UNK}
    for line in texts["train"]:
        for word in line:
            vocabulary.setdefault(word, len(vocabulary))
    train, test = (
        np.array([token for line in lines for token in [*(vocabulary.get(word, UNK) for word in line), EOS]])
        for lines in texts.values()
    )
    assert (len(vocabulary), len(train), len(test)) == (10_002, 929_589, 82_430)
    model = NGram.count(train, NGramConfig(vocab_size=len(vocabulary)))
    labels = torch.from_numpy(test)[None]
    features = model.features(torch.cat([torch.tensor([[EOS]]), labels[:, :-1]], dim=1), model.start(1)).features
    assert math.exp(model.readout.loss(features, labels).item() / len(test)) == pytest.approx(141.2, abs=0.2)
    few = model.readout(features[:, 1000:1064])
    assert few.exp().sum(dim=-1).allclose(torch.tensor(1.0), atol=1e-4)
