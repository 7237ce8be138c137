"""What a system cannot read is named and shown as it was typed, and a refused text has no answer below it."""

import pytest

from tests.studio.browser.tab import Tab

pytestmark = pytest.mark.browser

ALIGNED = {"model": "bahdanau", "site": "alignment", "head": 0}
SCREENS = {
    "watch": "main [data-output], main .stage",
    "compute": "main td button",
    "swap": "main .stage",
    "heads": "main canvas",
}


@pytest.mark.parametrize("screen", SCREENS)
def test_a_text_that_is_too_long_or_empty_leaves_no_answer(new_tab, screen):
    tab: Tab = new_tab()
    page = tab.open(screen, model="transformer", text="3 May 2031")
    page.locator(SCREENS[screen]).first.wait_for(state="attached")
    for text, notice in (("3 May 2031 " * 400, "This text is too long"), ("  ", "Type a text")):
        page.get_by_label("Text", exact=True).fill(text)
        page.get_by_text(notice, exact=True).wait_for()
        page.locator(SCREENS[screen]).first.wait_for(state="detached")
        page.get_by_label("Text", exact=True).fill("4 May 2031")
        page.locator(SCREENS[screen]).first.wait_for(state="attached")
    assert tab.errors == []


@pytest.mark.parametrize(
    ("language", "sentence", "line"),
    [
        ("en", "Not in the vocabulary, and read as <unk>: 我, 吃", "Reads "),
        ("zh", "词表里没有，按 <unk> 处理：我、吃", "读入："),
    ],
)
def test_unknown_characters_are_named_and_shown_as_they_were_typed(new_tab, server, language, sentence, line):
    tab: Tab = new_tab(language)
    page = tab.open("watch", **ALIGNED, text="我吃 3 May 2031")
    assert sentence == page.locator("main [data-unknown]").inner_text()
    card = next(card for card in server.get("/api/state")["models"] if card["name"] == "bahdanau")
    told = page.locator("main .reads").inner_text()
    assert told.startswith(line) and card["reads"][language] in told and card["writes"][language] in told
    ribbons = page.locator("main .ribbons svg")
    assert ribbons.locator("g.key.unknown text").all_text_contents() == ["我", "吃"]
    assert "<unk>" not in page.locator("main").inner_text().replace(sentence, "")
    assert page.locator("main [role=columnheader]").nth(1).text_content().startswith("我")
    page.locator("main input[type=checkbox]").check()
    page.get_by_role("columnheader", name="<unk>").first.wait_for(state="attached")
    tab.screenshot(f"watch-unknown-{language}")
    assert tab.errors == []


def test_known_text_has_no_such_line(new_tab):
    page = new_tab().open("watch", **ALIGNED, text="3 May 2031")
    assert page.locator("main [data-unknown]").count() == 0


@pytest.mark.parametrize(
    ("drops_start", "words"), [(True, "the first 6 were left out"), (False, "the last 6 were left out")]
)
def test_what_was_left_out_of_a_long_text_stands_above_the_answer(new_tab, server, drops_start, words):
    tab: Tab = new_tab()
    cut = server.inspect("bahdanau", "3 May 2031") | {"num_dropped": 6, "drops_start": drops_start}
    tab.page.route("**/api/inspections", lambda route: route.fulfill(json=cut))
    page = tab.open("watch", **ALIGNED, text="3 May 2031")
    notice, output = page.locator("main .notice.long"), page.locator("main [data-output]")
    assert words in notice.inner_text()
    assert notice.bounding_box()["y"] < output.bounding_box()["y"]
