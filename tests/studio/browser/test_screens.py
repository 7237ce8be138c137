"""Every screen in both languages and at three widths: no error, no request to other hosts, no overlapping elements."""

import shutil
import subprocess

import pytest

from tests.studio.browser.tab import SCREENS, SELECTIONS, WIDTHS, Tab

pytestmark = pytest.mark.browser

OVERLAPS = """() => {
  const all = [...document.querySelectorAll('a, button, input, select, textarea, summary, [role=button]')];
  const clipped = (element) => {
    let box = element.getBoundingClientRect();
    let [left, top, right, bottom] = [box.left, box.top, box.right, box.bottom];
    for (let up = element.parentElement; up; up = up.parentElement) {
      if (getComputedStyle(up).overflow === 'visible' || up === document.body) continue;
      const frame = up.getBoundingClientRect();
      [left, top] = [Math.max(left, frame.left), Math.max(top, frame.top)];
      [right, bottom] = [Math.min(right, frame.right), Math.min(bottom, frame.bottom)];
    }
    return { element, left, top, right, bottom };
  };
  const name = (element) => `${element.tagName} ${element.getAttribute('aria-label') || element.textContent.trim()}`;
  const boxes = all
    .filter((element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
    .map(clipped)
    .filter((box) => box.right - box.left > 2 && box.bottom - box.top > 2 && box.bottom > 0 && box.right > 0);
  const found = [];
  boxes.forEach((one, k) => boxes.slice(k + 1).forEach((other) => {
    if (one.element.contains(other.element) || other.element.contains(one.element)) return;
    const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    if (wide > 1.5 && high > 1.5) found.push(`${name(one.element)} over ${name(other.element)}`.slice(0, 160));
  }));
  return found;
}"""
WIDER = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= innerWidth && document.body.scrollWidth <= innerWidth) return [];
  return [...document.querySelectorAll('body *')]
    .filter((one) => one.getBoundingClientRect().right > room + 1)
    .map((one) => `${one.tagName}.${one.className} ${one.textContent.trim().slice(0, 40)}`).slice(0, 5);
}"""
LETTERS = """() => {
  const drawn = (text) => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [80, 40];
    const context = canvas.getContext('2d');
    context.font = `32px ${getComputedStyle(document.body).fontFamily}`;
    context.fillText(text, 0, 32);
    return canvas.toDataURL();
  };
  return ['苹', '果', '注', '意', '\\u{10FFFF}'].map(drawn);
}"""


SYSTEMS = {"RNNsearch (Bahdanau)", "Seq2Seq", "Transformer"}
"""Names of systems are not translated."""


def is_chinese(text):
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_at_every_width(new_tab, screen, language):
    tab: Tab = new_tab(language)
    problems = []
    for width, height in WIDTHS.items():
        tab.page.set_viewport_size({"width": width, "height": height})
        page = tab.open(screen, **SELECTIONS[screen])
        page.wait_for_function("() => document.fonts.status === 'loaded'")
        tab.screenshot(f"{screen}-{language}-{width}")
        problems += [f"{width}: {results} is wider than the page" for results in page.evaluate(WIDER)]
        problems += [f"{width}: {results}" for results in page.evaluate(OVERLAPS)]
    if language == "zh":
        headings = page.locator("main h1, main h2:not(.system h2)").all_inner_texts()
        problems += [
            f"{text} is not Chinese" for text in headings if not (is_chinese(text) or text.isdigit() or text in SYSTEMS)
        ]
    assert problems == []
    assert tab.errors == []
    assert tab.foreign_requests() == []


def test_every_screen_opens_from_the_header_without_a_selection(new_tab):
    tab = new_tab()
    page = tab.open("watch")
    for place, screen in enumerate(SCREENS):
        page.get_by_role("navigation", name="Screens").get_by_role("link").nth(place).click()
        tab.wait(screen)
        assert page.evaluate("location.hash").startswith(f"#/{screen}")
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.evaluate("document.title").endswith("· regard")
    assert tab.errors == [] and tab.foreign_requests() == []


def test_the_language_can_be_chosen_and_is_stored(new_tab):
    tab = new_tab("zh")
    page = tab.open("watch")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.locator("header select").first.select_option("en")
    page.wait_for_function("() => document.documentElement.lang === 'en'")
    assert not is_chinese(page.locator("main h1").inner_text())
    page.reload()
    tab.wait("watch")
    assert page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.skipif(
    shutil.which("fc-list") is None
    or not subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=False).stdout.strip(),
    reason="no font has Chinese letters",
)
def test_chinese_characters_are_drawn(new_tab):
    page = new_tab("zh").open("watch")
    assert len(set(page.evaluate(LETTERS))) == 5
