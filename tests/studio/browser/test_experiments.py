"""Experiments on the page: with other settings, in both languages, undecided, stopped, and refused."""

from pathlib import Path

import pytest

from tests.studio.browser.server import StudioProcess
from tests.studio.browser.test_screens import OVERLAPS, WIDER

pytestmark = pytest.mark.browser

PROGRAM = Path(__file__).with_name("regard_with_stand_in.py")
KINDS = ("en 1440 light", "zh 1280 dark", "en 390 dark", "zh 390 light")
BADGES = {
    "en": {"holds": "✓ holds", "fails": "✗ does not hold", "undecided": "? not decidable here"},
    "zh": {"holds": "✓ 成立", "fails": "✗ 不成立", "undecided": "? 在此无法判定"},
}


@pytest.fixture(scope="module")
def studio(browser, demo, tmp_path_factory):
    """A studio with a stand-in among its experiments."""
    process = StudioProcess(tmp_path_factory.mktemp("experiments-home"), demo, (str(PROGRAM),))
    yield process
    process.kill()


@pytest.fixture
def open_experiment(new_tab, studio):
    """Open an experiment with settings."""

    def opened(controls=None, language="en", name="stand_in", **more):
        tab = new_tab(language, server=studio, **more)
        tab.open("learn", wait=False, **{"x.lesson": name, "x.controls": controls})
        tab.page.locator("main blockquote, main .notice.error").first.wait_for()
        return tab

    return opened


def run_with(tab, controls=""):
    """Run with the settings of the address, and return the text of the badge."""
    tab.page.locator("main .actions button.primary").click()
    tab.page.locator("main section.verdict [data-outcome]").wait_for()
    tab.wait_for_part("x.controls", controls or None)
    return tab.page.locator("main section.verdict [data-outcome]").inner_text()


def setting(page, label):
    """The field of a setting."""
    return page.get_by_role("spinbutton", name=label)


def test_an_experiment_runs_with_other_settings(open_experiment):
    tab = open_experiment()
    page = tab.page
    assert "Not run yet." in page.inner_text("main .actions")
    assert page.locator("main section.verdict").count() == 0
    assert run_with(tab) == BADGES["en"]["holds"]
    page.locator("main figure img, main section img").first.wait_for()
    page.get_by_text("Run it with other settings").click()
    setting(page, "repetitions").fill("2")
    setting(page, "repetitions").press("Enter")
    tab.wait_for_part("x.controls", "repeats:2")
    page.get_by_text("Not run with these settings yet.").wait_for()
    page.locator("main section.verdict").wait_for(state="detached")
    assert run_with(tab, "repeats:2") == BADGES["en"]["undecided"]
    assert "Measured 2 times." in page.inner_text("main section.verdict")
    # the list of runs leads back to each result, without computing again
    assert page.locator("main tbody a").all_inner_texts() == ["default settings", "repetitions 2"]
    page.get_by_role("link", name="default settings").click()
    page.get_by_text("Measured 4 times.").wait_for()
    tab.wait_for_part("x.controls", None)
    page.go_back()
    page.get_by_text("Measured 2 times.").wait_for()
    assert tab.errors == [] and tab.foreign_requests() == []


def test_a_run_in_one_language_is_shown_in_the_other(open_experiment, studio):
    # a second run, without which there is no list
    studio.request("/api/experiments/stand_in", {}, c="repeats:5")
    tab = open_experiment("repeats:2")
    page = tab.page
    assert run_with(tab, "repeats:2") == BADGES["en"]["undecided"]
    page.locator("header select").first.select_option("zh")
    page.wait_for_function("() => document.documentElement.lang === 'zh-CN'")
    assert page.locator("main section.verdict [data-outcome]").inner_text() == BADGES["zh"]["undecided"]
    assert "共测量 2 次。" in page.inner_text("main section.verdict") and "样本点数" in page.inner_text("main")
    assert page.locator("main tbody a[aria-current]").inner_text() == "重复次数 2"
    # another browser finds the same run at the same address
    other = open_experiment("repeats:2", "zh").page
    other.locator("main section.verdict").wait_for()
    assert other.locator("main section.verdict [data-outcome]").inner_text() == BADGES["zh"]["undecided"]
    assert tab.errors == []


def test_a_run_is_stopped(open_experiment):
    tab = open_experiment("steps:90000")
    page = tab.page
    page.get_by_role("button", name="Run it with these settings").click()
    page.get_by_text("so far.").wait_for()
    assert page.locator("main progress").count() == 1
    # the address leads back to the run
    page.reload()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Run it with these settings").wait_for()
    assert page.locator("main section.verdict").count() == 0
    assert tab.errors == []


def test_a_failed_run_and_refused_settings_have_their_reason(open_experiment):
    tab = open_experiment("repeats:8")
    tab.page.locator("main .actions button.primary").click()
    tab.page.get_by_text("8 repetitions are too many.").wait_for()
    assert tab.errors == []
    refused = open_experiment("repeats:900").page
    refused.get_by_text("repeats is 900, which is out of range. Choose a number from 2 to 8.").wait_for()
    refused.get_by_role("button", name="Reset").click()
    refused.locator("main .actions button.primary").wait_for()


def test_an_experiment_of_the_package_runs_with_a_setting(open_experiment, studio):
    tab = open_experiment("repeats:3", name="permutation")
    assert run_with(tab, "repeats:3") in BADGES["en"].values()
    answer = studio.get("/api/experiments/permutation", c="repeats:3")
    rows = tab.page.locator("main section.measurements tbody tr").all()
    assert [row.locator("td").all_inner_texts() for row in rows] == [
        [cell["en"] for cell in row] for row in answer["result"]["rows"]
    ]


def test_cards_are_found_by_text_and_kind(new_tab, studio):
    tab = new_tab(server=studio)
    page = tab.open("learn")
    cards = page.locator("main li h3")
    total = cards.count()
    page.get_by_role("searchbox").fill("g99")
    tab.wait_for_part("x.search", "g99")
    assert cards.all_inner_texts() == ["G99\nStand-in"]
    page.get_by_role("button", name="Lessons (0)").click()
    page.get_by_text("Nothing matches “g99”.").wait_for()
    page.get_by_role("button", name="Clear the search").click()
    assert cards.count() == total
    page.get_by_role("button", name="Experiments").click()
    tab.wait_for_part("x.kind", "experiment")
    assert all(text.startswith("G") for text in cards.all_inner_texts())
    assert tab.errors == []


@pytest.mark.parametrize("kind", KINDS)
def test_cards_and_an_experiment_at_every_width(open_experiment, new_tab, studio, violations, kind):
    language, width, scheme = kind.split()
    more = {"width": int(width), "bypass_csp": True, "color_scheme": scheme}
    tabs = {"cards": new_tab(language, server=studio, **more)}
    tabs["cards"].open("learn")
    for outcome, controls in {"fails": "repeats:3", "undecided": "repeats:2", "holds": ""}.items():
        tabs[outcome] = open_experiment(controls or None, language, **more)
        assert run_with(tabs[outcome], controls) == BADGES[language][outcome]
    for name, tab in tabs.items():
        tab.screenshot(f"experiments-{name}-{language}-{width}-{scheme}")
        assert tab.page.evaluate(WIDER) == []
        assert tab.page.evaluate(OVERLAPS) == []
        assert violations(tab.page) == []
        assert tab.errors == []
