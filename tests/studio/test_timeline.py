"""The timeline has every entry of every table, with its explanation, its file and the recorded figures."""

import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from pydantic import BaseModel

import regard
from benchmarks.studio_figures import FIGURES, load_records, to_json
from regard.models.translation import TRANSLATION_MODELS
from regard.studio import swap, timeline
from regard.studio.code_paths import find_class
from regard.studio.explanations import EXPLANATIONS
from regard.studio.history import HISTORY
from regard.studio.lessons import LESSONS, lesson
from regard.studio.schema.base import LocalizedText
from regard.studio.timeline import MECHANISMS, milestones
from regard.tasks import TASKS

TABLES = {task.name: task.models for task in TASKS.values()} | {name: table for name, (_, table) in MECHANISMS.items()}
PACKAGE = Path(regard.__file__).parent


@pytest.fixture(scope="module")
def runs():
    return load_records()


@pytest.fixture(scope="module")
def line():
    """The milestones of the tables, without those of the history."""
    return [one for one in all_milestones() if not one.key.startswith("history/")]


@pytest.fixture(scope="module")
def history():
    return {one.key.removeprefix("history/"): one for one in all_milestones() if one.key.startswith("history/")}


def all_milestones():
    return milestones({"translation/bahdanau": "demo/bahdanau", "language_modeling/lstmn": "runs/lstmn"})


def test_every_entry_has_a_milestone(line):
    assert sorted(one.key for one in line) == sorted(f"{family}/{name}" for family in TABLES for name in TABLES[family])
    assert [one.year for one in line] == sorted(one.year for one in line)
    for one in line:
        family, name = one.key.split("/")
        entry = TABLES[family][name]
        assert (one.family, one.year, one.formula, one.paper) == (family, entry.year, entry.formula, entry.paper)


@pytest.mark.parametrize("family", TABLES)
def test_every_entry_has_an_explanation(family):
    assert list(EXPLANATIONS) == list(MECHANISMS)
    models = {name: entry.summary for name, entry in TABLES[family].items()} if family in TASKS else None
    explanations = models or EXPLANATIONS[family]
    assert list(explanations) == list(TABLES[family])
    assert all(one.en.endswith(".") and one.zh.endswith("。") for one in explanations.values())


def test_the_year_is_that_in_which_the_cited_paper_was_first_public(line, history):
    line = [*line, *history.values()]
    # an arXiv number begins with the last two digits of the year and the month
    by_number = {
        one.key: 2000 + int(match[1]) for one in line if (match := re.search(r"arxiv.org/abs/(\d\d)", one.paper))
    }
    by_number |= {one.key: 2000 + int(match[1]) for one in line if (match := re.search(r"org/[A-Z](\d\d)-", one.paper))}
    assert len(by_number) > 30
    assert {one.key: one.year for one in line if one.key in by_number} == by_number


def test_papers_are_those_of_the_formulas(line):
    items = {one.key: one for one in line}
    assert items["language_modeling/ngram"].paper.endswith("ICASSP.1995.479394")
    bilstm = items["text_classification/bilstm"]
    assert (bilstm.year, bilstm.paper) == (2005, "https://doi.org/10.1016/j.neunet.2005.06.042")
    gpt = items["language_modeling/gpt"]
    # layers that begin with the norm came with GPT-2
    assert "norm(x), x before" in gpt.formula
    assert (gpt.year, gpt.title.en) == (2019, "GPT-2")
    assert "unsupervised_multitask" in gpt.paper


REPLACED = ("打分", "源文", "原文", "谓词", "仅填充", "状态相承", "朴素", "内核")
"""Chinese words of which another one is used everywhere."""


def chinese_of(message):
    """Every Chinese text of a message."""
    if isinstance(message, LocalizedText):
        return [message.zh]
    if isinstance(message, BaseModel):
        return chinese_of(list(vars(message).values()))
    if isinstance(message, dict):
        return chinese_of(list(message.values()))
    return [text for part in message for text in chinese_of(part)] if isinstance(message, (list, tuple)) else []


def test_one_chinese_word_for_one_thing(line, history):
    pages = [lesson(name, {}) for name in LESSONS]
    texts = chinese_of([line, history, EXPLANATIONS, pages, *(vars(swap).values())])
    assert len(texts) > 300
    assert [text for text in texts for word in REPLACED if word in text] == []


def test_no_claim_to_be_the_first_is_made(line):
    texts = [one.explanation.en for one in line] + [one.explanation.zh for one in line]
    assert [text for text in texts if re.search(r"\bthe first\b|第一个|最早", text)] == []


def test_every_file_exists_and_defines_its_entry(line):
    for one in line:
        family, name = one.key.split("/")
        source = (PACKAGE / one.file).read_text(encoding="utf-8")
        built = "Hard" if name.startswith("hard") else TABLES[family][name].build.__name__
        assert f"class {built}" in source or f"def {built}" in source, one.file


def test_titles_can_be_read(line):
    titles = {one.key: one.title.en for one in line}
    assert titles["translation/bahdanau"] == TRANSLATION_MODELS["bahdanau"].title
    assert titles["score/scaled_dot"] == "Scaled dot"
    assert not any("_" in title for title in titles.values())


def test_only_registered_models_are_linked(line):
    linked = {"translation/bahdanau": "demo/bahdanau", "language_modeling/lstmn": "runs/lstmn"}
    assert {one.key: one.model for one in line if one.model} == linked


def test_figures_equal_the_recorded_ones(runs):
    assert FIGURES.read_text(encoding="utf-8") == to_json(runs), "run: python -m benchmarks.studio_figures"


def test_every_system_has_results_with_their_data(runs, line):
    figures = {one.key: one.figure for one in line}
    for name in TRANSLATION_MODELS:
        tests = [run["test"] for key, run in runs["systems"].items() if key.rpartition("-")[0] == name]
        bleu, data = tests[0]["metrics"][0], figures[f"translation/{name}"]
        mean = fmean(test["metrics"][0]["value"] for test in tests)
        assert bleu["name"] == "bleu_tokenised"
        for message in (data.en, data.zh):
            assert f"{mean:.1f}" in message
            assert bleu["signature"] in message
            assert tests[0]["info"]["data"] in message and tests[0]["info"]["split"] in message
        assert "mean of seeds 0, 1, 2" in data.en
    assert "tatoeba en-zh" in figures["translation/transformer"].zh


def test_language_models_and_classifiers_have_results(runs, line):
    figures = {one.key: one.figure for one in line}
    perplexity = runs["language"]["lstm-0"]["test"]["perplexity"]
    for message in (figures["language_modeling/lstm"].en, figures["language_modeling/lstm"].zh):
        assert f"{perplexity:.1f}" in message and "ptb" in message
    # trained with three seeds, whose mean is the figure
    assert "mean of seeds 0, 1, 2" in figures["language_modeling/attention"].en
    # counted: it has neither parameters nor steps
    assert "steps" not in figures["language_modeling/ngram"].en
    assert figures["language_modeling/ttt"] is None
    assert not any(figure for key, figure in figures.items() if key.partition("/")[0] in MECHANISMS)


def test_the_history_has_what_the_tables_lack(history):
    papers = {entry.paper for task in TASKS.values() for entry in task.models.values()}
    for key, entry in HISTORY.items():
        # a system of a table is described there; RCTM I and II are in one paper
        expected = entry.family != "other" or entry.paper not in papers or key == "rctm_ii"
        assert (key in history) is expected, key
        assert entry.explanation.en.endswith(".") and entry.explanation.zh.endswith("。")
    assert {"multi_head", "residual", "cache", "linear_attention", "story"} <= history.keys()


def test_what_the_package_does_not_build_has_no_file(history):
    for key, one in history.items():
        entry = HISTORY[key]
        assert (one.file is None) is (entry.build is None), key
        if entry.build:
            name = entry.build.partition(":")[2]
            assert f"class {name}" in (PACKAGE / one.file).read_text(encoding="utf-8")
    assert find_class("regard.attention:NoSuchClass") is None and find_class("regard.no_such_package:One") is None


def test_a_system_that_a_table_has_gained_leaves_the_history(monkeypatch, history):
    assert "rctm_ii" in history, "a variant of the entry RCTM I"
    entry = TRANSLATION_MODELS["rctm"]
    gained = {**TRANSLATION_MODELS, "rctm_ii": replace(entry, title="RCTM II")}
    monkeypatch.setattr(
        timeline, "all_tasks", lambda: {**TASKS, "translation": replace(TASKS["translation"], models=gained)}
    )
    keys = [one.key for one in milestones({})]
    assert "history/rctm_ii" not in keys and "translation/rctm_ii" in keys and "history/glimpses" in keys


def test_lanes_have_one_family_each_and_the_story_is_in_that_of_its_task(history):
    families = {}
    for one in all_milestones():
        assert families.setdefault(one.lane, one.family_title) == one.family_title
    assert sorted(families) == list(range(len(families)))
    assert history["story"].lane == list(TASKS).index("translation")
    assert all(one.lesson is None or one.lesson in LESSONS for one in history.values())


def test_every_system_is_described_in_the_words_of_the_task_model(line):
    words = {
        "en": ("Feature model", "query", "attention model", "output model"),
        "zh": ("特征模型", "查询模型", "注意力模型", "输出模型"),
    }
    described = [one for one in line if one.is_system]
    assert len(described) > 20
    for one in described:
        assert one.parts is not None, f"{one.key}: describe it in ModelEntry.parts"
        assert all(word in one.parts.en for word in words["en"]) and all(word in one.parts.zh for word in words["zh"])
        assert one.parts.en.count(".") == 1 and one.parts.zh.count("。") == 1, "one sentence"
        attends = TABLES[one.family][one.key.split("/")[1]].attends
        assert not (attends and "attention model: none" in one.parts.en), one.key
