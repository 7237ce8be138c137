"""The server is killed: the page keeps its content with a message, and continues when the server is back."""

import pytest

from tests.studio.browser.server import StudioProcess
from tests.studio.browser.tab import Tab

pytestmark = pytest.mark.browser

AT = {"model": "bahdanau", "text": "3 May 2031", "site": "attention", "head": 0, "i": 2, "j": 4}
UNREACHABLE = "The server cannot be reached"
POLL = 20_000


@pytest.fixture
def own(demo, tmp_path):
    process = StudioProcess(tmp_path / "home", demo)
    yield process
    process.kill()


def test_a_restarted_server_loses_no_state(new_tab, own):
    tab: Tab = new_tab(server=own)
    page = tab.open("watch", **AT)
    exact, answer, token = (
        page.locator("[data-exact]").inner_text(),
        page.locator("[data-output]").inner_text(),
        own.token,
    )
    own.kill()
    page.get_by_text(UNREACHABLE).wait_for(timeout=POLL)
    tab.screenshot("watch-unreachable")
    assert page.locator("[data-output]").inner_text() == answer
    assert page.locator("[data-exact]").inner_text() == exact
    assert page.locator("main [role=grid]").count() == 1
    # a new request is sent when the server is back
    page.get_by_label("Text", exact=True).fill("4 June 2032")
    page.wait_for_timeout(500)
    assert page.locator("[data-output]").inner_text() == answer
    own.start()
    assert own.token == token
    page.get_by_text(UNREACHABLE).wait_for(state="detached", timeout=POLL)
    page.wait_for_function("old => document.querySelector('[data-output]').innerText !== old", arg=answer)
    tab.wait("watch")
    assert page.get_by_label("Text", exact=True).input_value() == "4 June 2032"
    assert (tab.part("model"), tab.part("site")) == ("bahdanau", "attention")
    page.get_by_label("Text", exact=True).fill("3 May 2031")
    page.get_by_text(answer, exact=True).wait_for()


def test_the_page_keeps_its_selection_over_a_restart(new_tab, own):
    tab = new_tab(server=own)
    page = tab.open("compute", **AT, **{"x.stage": "weights", "x.quantity": "weight"})
    value = page.locator("section[aria-labelledby=inspector-title] dd").nth(1)
    displayed, address = value.inner_text(), page.evaluate("location.hash")
    own.kill()
    page.get_by_text(UNREACHABLE).wait_for(timeout=POLL)
    assert value.inner_text() == displayed
    own.start()
    page.get_by_text(UNREACHABLE).wait_for(state="detached", timeout=POLL)
    page.get_by_role("button", name="weight[2,5]").click()
    tab.wait_for_part("j", 5)
    page.get_by_text("weight[2,5]", exact=False).first.wait_for()
    page.go_back()
    page.wait_for_function(
        "shown => document.querySelector('#inspector-title').closest('section').innerText.includes(shown)",
        arg=displayed,
    )
    assert page.evaluate("location.hash") == address
