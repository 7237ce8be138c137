"""Without models, systems train in the background: the page shows the progress, and screens that need none work."""

import pytest

from tests.studio.browser.server import StudioProcess
from tests.studio.browser.tab import READY, Tab

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def empty(browser, tmp_path_factory):
    """A studio without models; it is killed with its training."""
    process = StudioProcess(tmp_path_factory.mktemp("empty"), None)
    yield process
    process.kill()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_screens_that_work_while_the_first_systems_train(new_tab, empty, language):
    tab: Tab = new_tab(language, server=empty)
    page = tab.page
    for screen in ("compute", "swap", "timeline", "learn"):
        tab.open(screen)
        bar = page.get_by_role("progressbar").first
        bar.wait_for()
        assert {"en": "in the background", "zh": "后台训练"}[language] in bar.get_attribute("aria-label")
        tab.screenshot(f"beginning-{screen}-{language}")
    tab.open("learn", **{"x.lesson": "masked_softmax"})
    page.locator("main form input").first.check()
    page.locator("main form button[type=submit]").click()
    page.locator("main form.answered").wait_for()
    assert tab.errors == [] and tab.foreign_requests() == []


def test_screens_without_a_trained_system_show_a_notice(new_tab, empty):
    tab = new_tab(server=empty)
    for screen in ("watch", "compare", "heads", "runs"):
        page = tab.open(screen, wait=False)
        page.locator(f"main .notice:not(.loading), main .notice:has-text('training'), {READY[screen]}").first.wait_for()
        page.wait_for_timeout(500)
        assert page.locator("main .notice.error").count() == 0, screen
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen
        tab.screenshot(f"beginning-{screen}-en")
    assert tab.errors == [] and tab.foreign_requests() == []
