"""With nothing to look at, systems train in the background: the page says how far, and what works already works."""

import pytest

from tests.studio.browser.seeing import READY, Seen
from tests.studio.browser.serving import Serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def empty(browser, tmp_path_factory):
    """It is killed with what it trains."""
    made = Serving(tmp_path_factory.mktemp("empty"), None)
    yield made
    made.kill()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_works_while_the_first_systems_train(see, empty, language):
    seen: Seen = see(language, serving=empty)
    page = seen.page
    for screen in ("compute", "swap", "timeline", "learn"):
        seen.open(screen)
        bar = page.get_by_role("progressbar").first
        bar.wait_for()
        assert {"en": "in the background", "zh": "后台训练"}[language] in bar.get_attribute("aria-label")
        seen.shoot(f"beginning-{screen}-{language}")
    seen.open("learn", **{"x.lesson": "masked_softmax"})
    page.locator("main form input").first.check()
    page.locator("main form button[type=submit]").click()
    page.locator("main form.done").wait_for()
    assert seen.errors == [] and seen.foreign() == []


def test_what_waits_for_a_trained_system_says_so(see, empty):
    seen = see(serving=empty)
    for screen in ("watch", "compare", "heads", "runs"):
        page = seen.open(screen, wait=False)
        page.locator(f"main .notice:not(.loading), main .notice:has-text('training'), {READY[screen]}").first.wait_for()
        page.wait_for_timeout(500)
        assert page.locator("main .notice.error").count() == 0, screen
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen
        seen.shoot(f"beginning-{screen}-en")
    assert seen.errors == [] and seen.foreign() == []
