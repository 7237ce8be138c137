"""The lessons on worked examples: their numbers equal torch, and their answers follow from the numbers."""

import math
from pathlib import Path

import pytest
import torch

import regard
from regard.attention import attend
from regard.attention.positions import Sinusoidal
from regard.experiments import EXPERIMENTS
from regard.studio.lessons import (
    LESSONS,
    dictionary,
    dropout,
    equal_shares,
    experts,
    generation,
    lesson,
    mail,
    north,
    path_lengths,
    six_words,
    state_rules,
    word_order,
)
from tests.studio.lesson_pages import blocks, correct_answer, table


def curve(name, index=0, **settings):
    return [torch.tensor(one.y) for one in blocks(name, "chart", **settings)[index].series]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_names_the_files_that_compute_it(name):
    page = lesson(name, {})
    assert page.code[-1] == f"studio/lessons/{name}.py" and len(page.code) > 1
    assert all((Path(regard.__file__).parent / path).is_file() for path in page.code)


def test_a_lesson_links_an_experiment_that_exists():
    linked = {name: lesson(name, {}).experiment for name in LESSONS}
    assert {one for one in linked.values() if one is not None} <= set(EXPERIMENTS)
    assert linked["word_order"] == "permutation" and linked["cues"] is None
    # the page finds lessons and experiments by one name
    assert not set(LESSONS) & set(EXPERIMENTS)


@pytest.mark.parametrize("name", LESSONS)
def test_a_question_comes_before_the_results(name):
    kinds = [block.kind for block in lesson(name, {}).blocks]
    assert {"matrix", "chart"} & set(kinds[kinds.index("question") :]), "figures before it are inputs"


@pytest.mark.parametrize("order", [2, 3, 4])
def test_generation_follows_the_most_probable_word(order):
    probabilities = table("generation", 0, order=order)
    assert probabilities.sum(dim=1).allclose(torch.ones(len(probabilities)))
    best = [generation.WORDS[index] for index in probabilities.argmax(dim=1)]
    assert best == ["wear", "shoes", "<eos>"]
    assert correct_answer("generation", 0, order=order) == "You should wear"
    assert correct_answer("generation", 1, order=order) == "0", "after a wrong word nothing of the rest remains"
    product = probabilities.amax(dim=1).prod()
    assert f"= {product:.3f}." in blocks("generation", "text", order=order)[1].text.en


@pytest.mark.parametrize("sharpness", [0, 2, 6])
def test_equal_shares_are_attention_at_sharpness_0(sharpness):
    equal, love, greeting = (table("equal_shares", index, sharpness=sharpness) for index in range(3))
    assert equal.allclose(torch.full((3, 3), 1 / 3))
    assert love.allclose(torch.softmax(sharpness * torch.eye(3), dim=-1))
    assert greeting[2].allclose(torch.full((3,), 1 / 3)), "no source word belongs to it"
    assert correct_answer("equal_shares", 0, sharpness=sharpness) == "0.33"
    assert correct_answer("equal_shares", 1, sharpness=sharpness) == ("you" if sharpness else "all are equal")


def test_the_diagonal_fails_where_the_order_is_reversed():
    monotonic, reversed_order = mail.PAIRS.values()
    for spread in (0.25, 0.5, 2.0):
        weights = mail.diagonal_weights(monotonic, spread)
        distance = torch.arange(3.0) - torch.arange(3.0)[:, None]
        assert weights.allclose(torch.softmax(-(distance**2) / (2 * spread**2), dim=-1), atol=1e-6)
        assert mail.share(monotonic, weights) > mail.share(reversed_order, weights)
    assert correct_answer("mail", 0) == "Where", "the first target word gets the first source word"
    assert correct_answer("mail", 1, spread=0.25, sharpness=1) == "on the reversed one only"
    assert correct_answer("mail", 1, spread=2, sharpness=6) == "on both"


def test_cursors_do_not_go_back():
    pair = mail.PAIRS["reversed"]
    weights = mail.cursor_weights(pair, 4.0)
    stop = torch.sigmoid(4.0 * (2 * pair.queries @ pair.keys - 1))
    expected, before = torch.zeros(3, 3), torch.tensor([1.0, 0.0, 0.0])
    for query in range(3):
        for start in range(3):
            moved = before[start]
            # from where it stopped, it passes some words and stops at one
            for key in range(start, 3):
                expected[query, key] += moved * stop[query, key]
                moved = moved * (1 - stop[query, key])
        before = expected[query]
    assert weights.allclose(expected, atol=1e-6)
    assert weights[0].argmax() == 2 and weights[2, 0] < 1e-3, "the last word is needed first"


@pytest.mark.parametrize("recurrence", [0.1, 0.5, 1.0])
def test_the_states_of_the_north_equal_those_of_torch(recurrence):
    rnn = torch.nn.RNN(5, 5, bias=False)
    with torch.no_grad():
        rnn.weight_ih_l0.copy_(torch.eye(5))
        rnn.weight_hh_l0.copy_(recurrence * torch.eye(5))
        states, _ = rnn(torch.eye(5))
    weights = torch.softmax(4 * states[:, 0], dim=0)
    assert table("north", 0, recurrence=recurrence).allclose(states)
    assert table("north", 1, recurrence=recurrence)[0].allclose(weights)
    assert table("north", 2, recurrence=recurrence)[0].allclose(weights @ states)
    model, north_of = north.make_task_model(recurrence), lambda vector: torch.sigmoid(5 * vector[0])
    assert model(torch.arange(5), torch.tensor([north.SPECIAL]))[0, 0].allclose(north_of(weights @ states))
    assert correct_answer("north", 0, recurrence=recurrence) == "北 (north)"
    assert correct_answer("north", 1, recurrence=recurrence) == "$h_1$"
    assert f"{north_of(states[-1]):.2f} from $h_5$" in blocks("north", "text", recurrence=recurrence)[3].text.en


def test_context_decides_except_for_the_boy():
    words, pronoun, boy = (table("context", index, share=1) for index in (2, 5, 6))
    # rows alternate between without and with the context
    assert words[0::2].allclose(torch.full((2, 2), 0.5)) and pronoun[0::2].allclose(torch.full((2, 2), 0.5))
    assert words[1, 0] > 0.8 and words[3, 1] > 0.8, "a device on a pole; a model for language"
    assert pronoun[1, 0] > 0.8 and pronoun[3, 1] > 0.8, "hungry is the cat, sweet the milk"
    assert (boy[1, 0] - boy[0, 0]).abs() < 0.01
    assert correct_answer("context", 0) == "models"
    assert correct_answer("context", 1, share=1) == "milk"
    assert correct_answer("context", 1, share=0) == "both equally"
    assert correct_answer("context", 2, share=3) == "by about 0"
    hungry = table("context", 3)[0]
    assert hungry.argmax() == 0, "it attends to the cat"


def test_the_six_words_have_the_numbers_of_the_book():
    scores, weights = table("six_words", 1)[0], table("six_words", 2)[0]
    assert scores.tolist() == pytest.approx([0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865], abs=5e-5)
    assert weights.tolist() == pytest.approx([0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581], abs=5e-5)
    assert "(0.4419, 0.6515, 0.5683)" in blocks("six_words", "text")[2].text.en
    vectors = six_words.VECTORS
    assert table("six_words", 4).allclose(torch.softmax(vectors @ vectors.T, dim=-1) @ vectors, atol=1e-6)
    assert correct_answer("six_words", 0, word=5) == "starts", "a long vector beats the word itself"


@pytest.mark.parametrize("word", range(1, 7))
def test_under_the_causal_mask_a_word_attends_to_the_words_so_far(word):
    row = table("six_words", 2, word=word, causal=1)[0]
    vectors = six_words.VECTORS
    assert row[:word].allclose(torch.softmax(vectors[:word] @ vectors[word - 1], dim=0), atol=1e-6)
    assert row[word:].isnan().all()


@pytest.mark.parametrize("query", [0.0, 2.0, 2.5, 5.0])
def test_an_exact_lookup_is_temperature_0(query):
    keys, values = dictionary.KEYS[:, 0], dictionary.VALUES[:, 0]
    limits = table("dictionary", 1, query=query, temperature=0.5)
    assert limits[0].tolist() == [float(index == (keys - query).abs().argmin()) for index in range(3)]
    assert limits[1].allclose(torch.softmax(-0.5 * (keys - query) ** 2 / 0.5, dim=0), atol=1e-6)
    assert limits[2].allclose(torch.full((3,), 1 / 3))
    expected = f"{values[keys == query].item():.2f}" if query in keys else "nothing: an error"
    assert correct_answer("dictionary", 0, query=query) == expected
    # the softmax at a small temperature approaches the hard alignment
    assert dictionary.look_up([query], 1e-3)[0][0].allclose(limits[0], atol=1e-4)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_sum_on_average(rate):
    weights, dropped, rescaled = table("dropout", 0, rate=rate)
    assert rescaled.allclose(dropped / (1 - rate))
    assert all(one in (0, pytest.approx(weights[index].item())) for index, one in enumerate(dropped.tolist()))
    assert correct_answer("dropout", 0, rate=rate) == f"{1 / (1 - rate):.2f}"
    with_factor, without = (line[-1] for line in curve("dropout", rate=rate))
    assert without.allclose(with_factor * (1 - rate)) and with_factor == pytest.approx(1, abs=0.35)
    assert correct_answer("dropout", 1, rate=rate) == "it is smaller"
    # the package drops in the same way: a weight is 0 or grows by the factor
    query = dropout.VECTORS[dropout.QUERY, None]
    drawn = attend(query, dropout.VECTORS, dropout.VECTORS, dropout=rate, return_weights=True).weights[0]
    assert all(one == 0 or one == pytest.approx(weights[i].item() / (1 - rate)) for i, one in enumerate(drawn.tolist()))


@pytest.mark.parametrize("length", [0.5, 1.0, 1.5, 5.0])
def test_only_the_dot_product_counts_the_length(length):
    dot, cosine = table("key_length", 1, length=length)
    angles = torch.tensor([0.0, 40.0, 100.0]).deg2rad()
    assert cosine.allclose(angles.cos(), atol=1e-6)
    assert dot.allclose(torch.tensor([1.0, length, 1.0]) * angles.cos(), atol=1e-6)
    assert table("key_length", 2, length=length).allclose(torch.softmax(2 * torch.stack([dot, cosine]), -1), atol=1e-6)
    longer = length > 1 / math.cos(math.radians(40))
    assert correct_answer("key_length", 0, length=length) == ("long" if longer else "nearest direction")
    assert correct_answer("key_length", 1, length=length) == "nearest direction"


@pytest.mark.parametrize("sharpness", [1, 6, 10])
def test_three_heads_attend_to_three_words(sharpness):
    heads, (single,) = (table("experts", index, sharpness=sharpness) for index in range(2))
    assert [experts.WORDS[index] for index in heads.argmax(dim=1)] == ["was", "cat", "hungry"]
    assert heads.allclose(torch.softmax(sharpness * experts.KEYS / math.sqrt(2), dim=-1), atol=1e-6)
    assert single.allclose(torch.softmax(sharpness * experts.KEYS.sum(dim=0) / math.sqrt(6), dim=-1), atol=1e-6)
    assert correct_answer("experts", 1, sharpness=sharpness) == "smaller than each of them"
    *entropies, alone = table("experts", 2, sharpness=sharpness)[:, 0]
    assert all(alone > entropy for entropy in entropies)


@pytest.mark.parametrize("order", range(1, 6))
def test_attention_reads_a_set_until_it_has_positions(order):
    outputs, permuted, memory, deviations = (table("word_order", index, order=order) for index in range(4))
    assert permuted.allclose(outputs[list(word_order.ORDERS[order - 1])], atol=1e-6)
    assert memory[0].allclose(memory[1], atol=1e-6)
    assert (deviations[:, 0] < 1e-6).all() and (deviations[:, 1] > 1e-3).all()
    answers = [correct_answer("word_order", index, order=order) for index in range(3)]
    assert answers == ["the same rows, permuted alike", "no", "no"]


@pytest.mark.parametrize("doublings", [3, 6, 10])
def test_embeddings_have_norm_1_and_sinusoids_the_root_of_half_the_size(doublings):
    size = 2**doublings
    word, scaled, position = table("embedding_norms", 0, doublings=doublings)[:, 0].tolist()
    assert word == pytest.approx(1, abs=0.1) and scaled == pytest.approx(word * math.sqrt(size), rel=1e-4)
    assert position == pytest.approx(math.sqrt(size / 2), rel=1e-4)
    assert Sinusoidal(hidden_size=size).encode(torch.arange(5)).norm(dim=-1).tolist() == pytest.approx([position] * 5)
    assert correct_answer("embedding_norms", 0, doublings=doublings) == "1"
    assert correct_answer("embedding_norms", 1, doublings=doublings) == f"√(d/2) = {math.sqrt(size / 2):.4g}"
    assert correct_answer("embedding_norms", 2, doublings=doublings) == "the word times √d"


@pytest.mark.parametrize(("distance", "kernel"), [(2, 2), (30, 3), (60, 15), (7, 8)])
def test_path_lengths_are_n_and_n_over_k_and_1(distance, kernel):
    layers = math.ceil(distance / (kernel - 1))
    steps = path_lengths.all_steps(distance, kernel)
    assert steps.tolist() == [distance, layers, 1]
    assert correct_answer("path_lengths", 0, distance=distance, kernel=kernel) == str(layers)
    left = table("path_lengths", 1, distance=distance, kernel=kernel, retention=0.5)[:, 0]
    assert left.allclose(0.5**steps)


@pytest.mark.parametrize("pairs", [2, 4, 9, 16])
def test_three_rules_recall_as_their_recurrences_do(pairs):
    keys, values = state_rules.draw_pairs(pairs)
    assert keys.norm(dim=-1).allclose(torch.ones(pairs))
    weights, hidden = torch.zeros(4, 4), torch.zeros(4)
    for key, value in zip(keys, values, strict=True):
        # one gradient step of rate 1/2 on |W k - v|^2
        weights = weights - 0.5 * 2 * torch.outer(weights @ key - value, key)
        hidden = 0.7 * hidden + 0.3 * value
    listed = torch.softmax(16 * keys @ keys.T, dim=-1) @ values
    expected = [(rows - values).square().mean(dim=-1) for rows in (hidden.expand(pairs, -1), keys @ weights.T, listed)]
    errors = table("state_rules", 1, pairs=pairs, retention=0.7)
    assert errors.allclose(torch.stack(expected), atol=1e-5)
    assert table("state_rules", 0, pairs=pairs)[:, 0].tolist() == [4, 16, 8 * pairs]
    assert correct_answer("state_rules", 0, pairs=pairs) == "attention"
    # four orthogonal keys fit into the matrix; the fifth overlaps with them
    best = "TTT and attention alike" if pairs <= 4 else "attention"
    assert correct_answer("state_rules", 1, pairs=pairs) == best
    for line, index in zip(curve("state_rules", pairs=pairs, retention=0.7), range(3), strict=True):
        assert line[pairs - 1] == pytest.approx(errors[index, 0].item(), abs=1e-5)


def test_the_north_is_nearly_lost_in_the_last_state_but_not_in_the_context():
    context, last = table("north", 2, recurrence=0.5)
    assert last[north.NORTH] < 0.1 < context[north.NORTH]


def test_the_pairs_of_sentences_are_those_of_the_source():
    assert [" ".join(pair.source) for pair in (equal_shares.LOVE, equal_shares.GREETING)] == [
        "I love you",
        "how are you",
    ]
