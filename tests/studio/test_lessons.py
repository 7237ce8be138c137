"""Lessons equal torch: correct answers, and numbers computed in a second way."""

import math
import re
import time
from itertools import product

import pytest
import torch

from regard.studio.lessons import (
    LESSONS,
    apple,
    article,
    cicada,
    cues,
    kernel_fit,
    lesson,
    masked_softmax,
    path_lengths,
    square_root,
)
from regard.studio.lessons.blocks import number
from regard.studio.schema import LessonPage
from tests.studio.lesson_pages import blocks, correct_answer, table, values_of

SETTINGS = [
    (name, dict(zip([one.name for one in entry.controls], values, strict=True)))
    for name, entry in LESSONS.items()
    for values in product(*({one.low, one.value, one.high} for one in entry.controls))
]


def every_text(page):
    for block in page.blocks:
        for field in type(block).model_fields:
            value = getattr(block, field)
            yield from (one for one in (value if isinstance(value, list) else [value]) if hasattr(one, "zh"))
        yield from (one.label for one in getattr(block, "series", []))


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
def test_a_lesson_is_complete_at_the_limits_of_its_controls(name, settings):
    page = lesson(name, settings)
    assert LessonPage.model_validate_json(page.model_dump_json()) == page, "no NaN and no infinity"
    kinds = [block.kind for block in page.blocks]
    assert "question" in kinds and {"matrix", "chart"} & set(kinds)
    for block in page.blocks:
        if block.kind == "question":
            assert 0 <= block.correct < len(block.choices)
            assert len({choice.en for choice in block.choices}) == len({choice.zh for choice in block.choices})
            assert len({choice.en for choice in block.choices}) == len(block.choices), "choices differ"
        elif block.kind == "matrix":
            assert len(block.values) == len(block.rows)
            assert {len(row) for row in block.values} == {len(block.columns)}
            assert all(cell is None or math.isfinite(cell) for row in block.values for cell in row)
        elif block.kind == "chart":
            assert all(len(one.x) == len(one.y) and all(map(math.isfinite, one.y)) for one in block.series)


@pytest.mark.parametrize("name", LESSONS)
def test_both_languages_are_complete(name):
    entry = LESSONS[name]
    shared = [entry.title, entry.summary, *(one.label for one in entry.controls)]
    for one in (*shared, *every_text(lesson(name, {}))):
        assert one.en and one.zh
        assert one.en.count("$") % 2 == 0 and one.en.count("$") == one.zh.count("$"), one
        assert "nan" not in one.en.lower().split() or "NaN" in one.en
        # brackets beside Chinese may be those of a formula
        assert re.search(r"[\u4e00-\u9fff][,;:]|[,;:][\u4e00-\u9fff]", one.zh) is None, one.zh
    paragraphs = [block.text for block in lesson(name, {}).blocks if block.kind == "text"]
    assert all(any("\u4e00" <= letter <= "\u9fff" for letter in one.zh) for one in paragraphs)


def test_a_lesson_is_computed_fast_enough_for_its_slider():
    threads = torch.get_num_threads()
    for name in LESSONS:
        lesson(name, {})
        durations = []
        for _ in range(5):
            start = time.thread_time()
            lesson(name, {})
            durations.append(time.thread_time() - start)
        assert min(durations) < 0.05, name
    assert torch.get_num_threads() == threads, "the number of threads is restored"


def test_lessons_leave_the_global_generator_unchanged():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    for name in set(LESSONS) - {"bahdanau"}:  # a layer of torch's is drawn there before its weights are set
        lesson(name, {})
    assert torch.rand(3).equal(expected)


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("cue", {}, "there is no lesson 'cue'; the nearest is 'cues'"),
        ("cues", {"wich": 1.0}, "there is no control 'wich'; the nearest is 'wish'"),
        ("cues", {"wish": 4.5}, "wish is 4.5, which is out of range. Choose a number from 0 to 4."),
        ("cues", {"wish": float("nan")}, "wish is nan, which is not a finite number. Choose a number from 0 to 4."),
        ("kernel_fit", {"width": float("inf")}, "width is inf, which is not a finite number"),
        ("cicada", {"kernel": 2.5}, "kernel is 2.5, but it is a count. Choose a whole number from 2 to 15."),
    ],
)
def test_an_invalid_setting_is_refused(name, settings, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        lesson(name, settings)


def test_a_salient_cue_has_the_largest_weight_until_the_query_changes():
    weights = torch.softmax(torch.tensor([[1.0, 0.0], [1.0, 2.0]]) @ cues.KEYS.T, dim=-1)
    assert table("cues", 1, wish=2).allclose(weights)
    assert correct_answer("cues", 0) == "coffee" == cues.OBJECTS[weights[0].argmax()].en
    assert correct_answer("cues", 1, wish=2) == "book" == cues.OBJECTS[weights[1].argmax()].en
    assert correct_answer("cues", 1, wish=1) == "coffee"


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_the_fit_equals_nadaraya_watson(seed):
    sample = kernel_fit.draw(seed)
    at = torch.linspace(0, 5, 101)[:, None]
    kernel = torch.exp(-0.5 * ((at - sample.x.T) * 3) ** 2)
    data, truth, average, fit = blocks("kernel_fit", "chart", seed=seed, width=3)[0].series
    assert torch.tensor(fit.y).allclose((kernel @ sample.y / kernel.sum(dim=1, keepdim=True))[:, 0], atol=1e-5)
    assert torch.tensor(truth.y).allclose((2 * at.sin() + at**0.8)[:, 0])
    assert torch.tensor(average.y).allclose(sample.y.mean().expand(101), atol=1e-5)
    assert data.points and len(data.x) == 50
    errors = {width: kernel_fit.error(sample, width) for width in kernel_fit.WIDTHS}
    assert correct_answer("kernel_fit", seed=seed) == f"w = {min(errors, key=errors.get):g}"


@pytest.mark.parametrize("seed", range(0, 100, 9))
def test_with_its_own_point_the_loss_prefers_the_narrowest_kernel(seed):
    itself, others = blocks("kernel_fit", "chart", seed=seed)[1].series
    assert itself.x[itself.y.index(min(itself.y))] == 20
    assert 1 < others.x[others.y.index(min(others.y))] < 20


def test_strength_agility_and_intelligence_are_90_and_46():
    assert values_of("projection", 1, {})[0] == pytest.approx([90.0, 46.0])
    data = blocks("projection", "text")[1].text
    assert all("= 90.0" in one and "= 46.0" in one for one in (data.en, data.zh))
    assert correct_answer("projection", agility=0) == "(2, 9)"


def test_the_apple_has_the_weights_of_the_seed():
    seed = [[1.0], [0.5, 0.5], [0.45, 0.45, 0.1], [0.3, 0.3, 0.1, 0.3]]
    for row, expected in zip(values_of("apple", 1, {}), seed, strict=True):
        assert row[: len(expected)] == pytest.approx(expected)
        assert row[len(expected) :] == [None] * (4 - len(expected))
    for sharpness in (0.5, 1, 4):
        weights = table("apple", 1, sharpness=sharpness)
        assert weights.nansum(dim=1).allclose(torch.ones(4))
        assert correct_answer("apple", sharpness=sharpness) == apple.NAMES[weights[-1].argmin()].en == "一个 (a)"


def test_an_needs_attention_to_the_apple():
    blind, near = article.probabilities(0), article.probabilities(1)
    assert blind[0] == 0.5 and correct_answer("article", 0) == "0.5: both are equally probable"
    assert blind[1] > 0.5 and correct_answer("article", 1) == '"an", which is wrong'
    assert near[0] > 0.95 and near[1] < 0.05
    first, second = table("article", 0, ahead=1)
    assert article.WORDS[first.nan_to_num().argmax()] == "苹果"
    assert article.WORDS[second.nan_to_num().argmax()] == "香蕉"
    assert first.isnan().sum() == 5, "later words are masked"


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_masked_softmax_by_hand(temperature):
    scores = masked_softmax.SCORES / temperature
    after, before = table("masked_softmax", 1, temperature=temperature)
    assert after[:3].allclose(torch.softmax(scores, -1)[:3])
    assert before.allclose(torch.cat([torch.softmax(scores[:3], -1), torch.zeros(1)]))
    assert after.sum() < 1 and correct_answer("masked_softmax", 0, temperature=temperature) == "less than 1"
    assert torch.softmax(torch.full((4,), -math.inf), -1).isnan().all() and correct_answer("masked_softmax", 1) == "NaN"
    assert values_of("masked_softmax", 2, {"temperature": temperature}) == [[0.0] * 4]


def test_the_masked_weights_equal_those_of_the_docs():
    torch.manual_seed(0)
    words = torch.randn(3, 8)
    scores = (words @ words.T / 8**0.5).masked_fill(~torch.ones(3, 3).tril().bool(), -math.inf)
    assert table("journey", 2).nan_to_num().allclose(torch.softmax(scores, -1), atol=1e-6)
    assert [round(one, 4) for one in values_of("journey", 2, {})[2]] == [0.0214, 0.0294, 0.9492]
    assert correct_answer("journey", 0) == "1.00" and correct_answer("journey", 1) == "Your, journey"
    assert values_of("journey", 2, {})[0][1:] == [None, None]


@pytest.mark.parametrize(("step", "word"), [(1, "you"), (2, "are"), (3, "Where")])
def test_bahdanau_by_hand(step, word):
    hidden, squashed = table("bahdanau", 1, step=step), table("bahdanau", 2, step=step)
    scores, weights = table("bahdanau", 3, step=step)
    assert squashed.allclose(hidden.tanh())
    assert scores.allclose(2 * squashed.sum(dim=1)), "v is (2, 2, 2)"
    assert weights.allclose(torch.softmax(scores, -1))
    assert correct_answer("bahdanau", step=step) == word
    context = weights @ table("bahdanau", 0)
    assert ", ".join(number(one) for one in context) in blocks("bahdanau", "text", step=step)[2].text.en


@pytest.mark.parametrize("kernel", range(2, 16))
def test_the_number_of_layers_covers_the_distance(kernel):
    assert cicada.THEY - cicada.CICADA == 30
    assert "".join(cicada.SENTENCE).startswith("秋蝉的衰弱的残声，更是北国的特产")
    needed = math.ceil(30 / (kernel - 1))
    assert path_lengths.layers_needed(kernel, 30) == needed
    assert correct_answer("cicada", kernel=kernel) == str(needed)
    recorded = blocks("cicada", "chart", kernel=kernel)[0].series[0].y
    assert recorded[-2] < 31 <= recorded[-1]


def test_the_end_of_the_sentence_decides_the_reference():
    sung, shaded = table("cicada", 0)
    assert cicada.NOUNS[sung.argmax()] == "秋蝉"
    assert f"{cicada.NOUNS[shaded.argmax()]} (tree)" == "树 (tree)" == correct_answer("cicada", 1)


@pytest.mark.parametrize("doublings", range(2, 10))
def test_the_variance_of_scores_is_the_size(doublings):
    size = 2**doublings
    plain, scaled = square_root.both_scores(size)
    assert scaled.allclose(plain / math.sqrt(size), atol=1e-5)
    assert 0.8 * size < plain.var() < 1.25 * size
    assert correct_answer("square_root", 0, doublings=doublings) == f"d = {size}"
    entropies = [
        (-weights * weights.log()).nansum(-1).median() for weights in torch.softmax(torch.stack([plain, scaled]), -1)
    ]
    assert entropies[0] < entropies[1] and correct_answer("square_root", 1, doublings=doublings) == "q·k"
    curves = blocks("square_root", "chart", doublings=doublings)[0].series
    for curve, entropy in zip(curves, entropies, strict=True):
        assert curve.y[doublings - 2] == pytest.approx(entropy.item(), abs=0.05)
