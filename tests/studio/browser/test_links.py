"""Links between the screens: a story of the timeline to its lesson, a lesson to its experiment."""

import pytest

from regard.studio.history import HISTORY

pytestmark = pytest.mark.browser


def test_the_story_opens_its_lesson_and_a_lesson_its_experiment(new_tab):
    tab = new_tab()
    page = tab.open("timeline", **{"x.item": "history/story"})
    page.get_by_role("link", name="Open the lesson").click()
    tab.wait_for_part("x.lesson", HISTORY["story"].lesson)
    page = tab.open("learn", **{"x.lesson": "word_order"})
    page.get_by_text("attention/positions/absolute.py").wait_for()
    page.get_by_role("link", name="The experiment that tests this").click()
    tab.wait_for_part("x.lesson", "permutation")
    assert tab.errors == []


@pytest.mark.parametrize(("language", "words"), [("en", "not built here"), ("zh", "本软件包尚未实现")])
def test_what_is_not_built_is_marked(new_tab, language, words):
    tab = new_tab(language)
    page = tab.open("timeline", **{"x.item": "history/multi_head"})
    page.get_by_text("attention/multi_head.py").wait_for()
    items = tab.server.get("/api/timeline")
    missing = [one["key"] for one in items if one["file"] is None]
    assert page.locator("svg .item.missing").count() == len(missing)
    for key in missing:
        tab.open("timeline", **{"x.item": key})
        page.locator("section.card").get_by_text(words).wait_for()
    assert tab.errors == []


def test_a_model_is_introduced_as_a_task_model(new_tab):
    tab = new_tab()
    page = tab.open("watch", model="bahdanau")
    page.get_by_text("Feature model: a bidirectional GRU").wait_for()
