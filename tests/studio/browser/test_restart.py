"""The server dies amid use: the page keeps what it has and says so; when it is back, the page goes on by itself."""

import pytest

from tests.studio.browser.seeing import Seen
from tests.studio.browser.serving import Serving

pytestmark = pytest.mark.browser

AT = {"model": "bahdanau", "text": "3 May 2031", "site": "attention", "head": 0, "i": 2, "j": 4}
AWAY = "The server is away"
POLL = 20_000


@pytest.fixture
def own(demo, tmp_path):
    made = Serving(tmp_path / "home", demo)
    yield made
    made.kill()


def test_killed_and_restarted_it_loses_nothing(see, own):
    seen: Seen = see(serving=own)
    page = seen.open("watch", **AT)
    exact, answer, token = (
        page.locator("[data-exact]").inner_text(),
        page.locator("[data-answer]").inner_text(),
        own.token,
    )
    own.kill()
    page.get_by_text(AWAY).wait_for(timeout=POLL)
    seen.shoot("watch-away")
    assert page.locator("[data-answer]").inner_text() == answer
    assert page.locator("[data-exact]").inner_text() == exact
    assert page.locator("main [role=grid]").count() == 1
    # what is asked for meanwhile waits
    page.get_by_label("Text", exact=True).fill("4 June 2032")
    page.wait_for_timeout(500)
    assert page.locator("[data-answer]").inner_text() == answer
    own.start()
    assert own.token == token
    page.get_by_text(AWAY).wait_for(state="detached", timeout=POLL)
    page.wait_for_function("old => document.querySelector('[data-answer]').innerText !== old", arg=answer)
    seen.wait("watch")
    assert page.get_by_label("Text", exact=True).input_value() == "4 June 2032"
    assert (seen.part("model"), seen.part("site")) == ("bahdanau", "attention")
    page.get_by_label("Text", exact=True).fill("3 May 2031")
    page.get_by_text(answer, exact=True).wait_for()


def test_restarted_it_stands_where_it_stood(see, own):
    seen = see(serving=own)
    page = seen.open("compute", **AT, **{"x.stage": "weights", "x.quantity": "weight"})
    value = page.locator("section[aria-labelledby=inspector-title] dd").nth(1)
    shown, address = value.inner_text(), page.evaluate("location.hash")
    own.kill()
    page.get_by_text(AWAY).wait_for(timeout=POLL)
    assert value.inner_text() == shown
    own.start()
    page.get_by_text(AWAY).wait_for(state="detached", timeout=POLL)
    page.get_by_role("button", name="weight[2,5]").click()
    seen.wait_part("j", 5)
    page.get_by_text("weight[2,5]", exact=False).first.wait_for()
    page.go_back()
    page.wait_for_function(
        "shown => document.querySelector('#inspector-title').closest('section').innerText.includes(shown)", arg=shown
    )
    assert page.evaluate("location.hash") == address
