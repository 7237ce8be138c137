"""The selection is in the address: a link opens it, reload and back restore it, every screen shares it."""

import pytest

from tests.studio.browser.tab import CROSS, SCREENS, SELECTIONS

pytestmark = pytest.mark.browser

PINNED = {"model": "bahdanau", "text": "3 May 2031", "site": "attention", "head": 0, "i": 2, "j": 4}


def selected(page):
    return page.locator("[role=gridcell][aria-selected=true]").get_attribute("id").rsplit("-", 2)[1:]


def test_a_link_opens_at_its_selection_and_reload_keeps_it(new_tab):
    tab = new_tab()
    page = tab.open("watch", **PINNED)
    assert page.get_by_label("Text", exact=True).input_value() == "3 May 2031"
    exact = page.locator("[data-exact]").inner_text()
    assert selected(page) == ["2", "4"]
    page.reload()
    tab.wait("watch")
    assert page.locator("[data-exact]").inner_text() == exact and selected(page) == ["2", "4"]


@pytest.mark.parametrize("screen", SCREENS)
def test_reload_keeps_every_part(new_tab, screen):
    tab = new_tab()
    page = tab.open(screen, **SELECTIONS[screen])
    before = page.evaluate("location.hash")
    page.reload()
    tab.wait(screen)
    page.wait_for_timeout(300)
    assert page.evaluate("location.hash") == before
    for name, value in SELECTIONS[screen].items():
        assert tab.part(name) == str(value)


def test_back_and_forward_restore_the_selection(new_tab):
    tab = new_tab()
    page = tab.open("compute", **CROSS)
    page.get_by_role("button", name="Scores").click()
    tab.wait_for_part("x.stage", "scores")
    page.get_by_role("button", name="Context", exact=False).first.click()
    tab.wait_for_part("x.stage", "context")
    page.get_by_role("link", name="Heads").click()
    tab.wait("heads")
    page.go_back()
    tab.wait("compute")
    assert tab.part("x.stage") == "context"
    page.go_back()
    tab.wait_for_part("x.stage", "scores")
    assert page.locator("[aria-current=step]").inner_text().endswith("Scores")
    page.go_forward()
    tab.wait_for_part("x.stage", "context")
    assert page.locator("[aria-current=step]").inner_text().endswith("Context")


def test_one_selection_drives_every_screen(new_tab):
    tab = new_tab()
    page = tab.open("watch", **CROSS)
    page.get_by_role("link", name="Compute this number").click()
    tab.wait("compute")
    for name in ("model", "text", "site", "head", "i", "j"):
        assert tab.part(name) == str(CROSS[name])
    page.get_by_role("navigation", name="Screens").get_by_role("link", name="Heads").click()
    tab.wait("heads")
    assert page.locator("#head-title").inner_text() == "decoder layer 1, head 1"


def test_an_invalid_address_opens_the_page(new_tab):
    tab = new_tab()
    tab.open("watch", **{"model": "nobody", "text": "5", "site": "nowhere", "i": "-7", "j": "9" * 12}, wait=False)
    tab.page.get_by_text("(not found)").first.wait_for(state="attached")
    assert tab.page.locator(".notice").count() >= 1
    tab.page.goto(f"{tab.server.origin}/?token={tab.server.token}#/%%%?text=%E0%A4%A")
    tab.page.locator("h1").wait_for()


def test_without_a_token_the_page_shows_a_notice(new_tab):
    tab = new_tab()
    tab.page.goto(f"{tab.server.origin}/")
    tab.page.get_by_text("This page needs its token").wait_for()
    assert tab.page.locator("main canvas").count() == 0
