"""Any input is shown as text and never executed, and a text that is too long shows an error."""

import pytest

from tests.studio.browser.tab import SCREENS

pytestmark = pytest.mark.browser

HOSTILE = {
    "script": "<script>window.hacked=1</script>",
    "image": '<img src=x onerror="window.hacked=1">',
    "attribute": "\"' onfocus=window.hacked=1 autofocus x='",
    "right to left": "3 \u202eyaM 2031",
    "zero width": "3\u200b May\u200d 2031\ufeff",
    "control": "3\x01 May\x1b[31m 2031\x7f",
    "emoji": "3 👩‍👩‍👧‍👦 May 🇨🇳 2031",
    "percent": "%s %00 {{7*7}} ${7*7} &lt;b&gt;",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_input_is_shown_as_text(new_tab, kind):
    tab = new_tab()
    page = tab.open("watch", model="transformer", text="3 May 2031", site="encoder.0.self_attention")
    page.get_by_label("Text", exact=True).fill(HOSTILE[kind])
    tab.wait_for_part("text", HOSTILE[kind])
    tab.wait("watch")
    assert page.get_by_label("Text", exact=True).input_value() == HOSTILE[kind]
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0
    headers = "".join(page.locator("[role=grid] [role=columnheader]").all_inner_texts())
    # invisible characters are shown by their code, so that none changes the text direction of the page
    assert not set(headers) & {"\u202e", "\u200b", "\x01", "\x1b", "\x7f"}
    assert tab.errors == [] and tab.foreign_requests() == []


@pytest.mark.parametrize("screen", [screen for screen in SCREENS if screen not in ("runs", "timeline", "learn")])
def test_hostile_text_in_a_link_is_shown_as_text(new_tab, screen):
    tab = new_tab(width=390, height=844)
    text = HOSTILE["image"] + HOSTILE["right to left"]
    page = tab.open(screen, model="transformer", text=text, output=HOSTILE["script"])
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.errors == [] and tab.foreign_requests() == []


def test_hostile_parts_of_a_link_are_shown_as_text(new_tab):
    tab = new_tab()
    bad = HOSTILE["image"]
    tab.open("runs", **{"x.runs": bad}, wait=False).get_by_text(bad).first.wait_for()
    tab.open("learn", **{"x.lesson": bad}, wait=False).get_by_text("no such page").wait_for()
    assert tab.page.evaluate("window.hacked") is None and tab.errors == []


def test_a_truncated_text_shows_the_number_of_dropped_tokens(new_tab):
    tab = new_tab()
    page = tab.open("watch", model="bahdanau", text="3 May 2031")
    page.get_by_label("Text", exact=True).fill("3 May 2031, " * 100)
    page.get_by_text("longer than the maximum of the model").wait_for(timeout=60_000)
    page.get_by_text("Too long for ribbons").wait_for()
    tab.screenshot("watch-long")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") and tab.errors == []


def test_4100_letters_show_an_error(new_tab):
    tab = new_tab()
    page = tab.open("watch", model="bahdanau", text="a" * 4100, wait=False)
    notice = page.locator(".notice.error, .notice.long").first
    notice.wait_for()
    assert "4000" in notice.inner_text().replace(",", "")
    tab.screenshot("watch-too-long")
    assert page.get_by_label("Text", exact=True).input_value() == "a" * 4100


def test_4100_typed_letters_are_not_truncated_silently(new_tab):
    tab = new_tab()
    page = tab.open("watch", model="bahdanau", text="3 May 2031")
    page.get_by_label("Text", exact=True).fill("a" * 4100)
    notice = page.locator(".notice.error, .notice.long").first
    notice.wait_for(timeout=60_000)
    assert "4100" in notice.inner_text().replace(",", "")


def test_an_empty_text_shows_a_notice(new_tab):
    tab = new_tab()
    page = tab.open("watch", model="bahdanau", text="3 May 2031")
    page.get_by_label("Text", exact=True).fill("   ")
    page.get_by_text("Type a text", exact=True).wait_for()
    assert tab.errors == []
