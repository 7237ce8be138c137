"""The selection lives in the address: a link opens at it, reload and back keep it, every screen shares it."""

import pytest

from tests.studio.browser.seeing import CROSS, SCREENS, SELECTIONS

pytestmark = pytest.mark.browser

PINNED = {"model": "bahdanau", "text": "3 May 2031", "site": "attention", "head": 0, "i": 2, "j": 4}


def selected(page):
    return page.locator("[role=gridcell][aria-selected=true]").get_attribute("id").rsplit("-", 2)[1:]


def test_a_link_opens_at_its_selection_and_reload_keeps_it(see):
    seen = see()
    page = seen.open("watch", **PINNED)
    assert page.get_by_label("Text", exact=True).input_value() == "3 May 2031"
    exact = page.locator("[data-exact]").inner_text()
    assert selected(page) == ["2", "4"]
    page.reload()
    seen.wait("watch")
    assert page.locator("[data-exact]").inner_text() == exact and selected(page) == ["2", "4"]


@pytest.mark.parametrize("screen", SCREENS)
def test_reload_keeps_every_part(see, screen):
    seen = see()
    page = seen.open(screen, **SELECTIONS[screen])
    before = page.evaluate("location.hash")
    page.reload()
    seen.wait(screen)
    page.wait_for_timeout(300)
    assert page.evaluate("location.hash") == before
    for name, value in SELECTIONS[screen].items():
        assert seen.part(name) == str(value)


def test_back_and_forward(see):
    seen = see()
    page = seen.open("compute", **CROSS)
    page.get_by_role("button", name="Scores").click()
    seen.wait_part("x.stage", "scores")
    page.get_by_role("button", name="Context", exact=False).first.click()
    seen.wait_part("x.stage", "context")
    page.get_by_role("link", name="Heads").click()
    seen.wait("heads")
    page.go_back()
    seen.wait("compute")
    assert seen.part("x.stage") == "context"
    page.go_back()
    seen.wait_part("x.stage", "scores")
    assert page.locator("[aria-current=step]").inner_text().endswith("Scores")
    page.go_forward()
    seen.wait_part("x.stage", "context")
    assert page.locator("[aria-current=step]").inner_text().endswith("Context")


def test_one_selection_drives_every_screen(see):
    seen = see()
    page = seen.open("watch", **CROSS)
    page.get_by_role("link", name="Compute this number").click()
    seen.wait("compute")
    for name in ("model", "text", "site", "head", "i", "j"):
        assert seen.part(name) == str(CROSS[name])
    page.get_by_role("navigation", name="Screens").get_by_role("link", name="Heads").click()
    seen.wait("heads")
    assert page.locator("#opened-title").inner_text() == "decoder layer 1, head 1"


def test_a_broken_address_is_no_broken_page(see):
    seen = see()
    seen.open("watch", **{"model": "nobody", "text": "5", "site": "nowhere", "i": "-7", "j": "9" * 12}, wait=False)
    seen.page.get_by_text("not on the registry").first.wait_for(state="attached")
    assert seen.page.locator(".notice").count() >= 1
    seen.page.goto(f"{seen.serving.origin}/?token={seen.serving.token}#/%%%?text=%E0%A4%A")
    seen.page.locator("h1").wait_for()


def test_without_its_token_the_page_says_so(see):
    seen = see()
    seen.page.goto(f"{seen.serving.origin}/")
    seen.page.get_by_text("This page needs its token").wait_for()
    assert seen.page.locator("main canvas").count() == 0
