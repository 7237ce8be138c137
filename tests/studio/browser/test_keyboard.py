"""Each screen without a mouse: Tab reaches every control, arrows and Enter use it, and the focus is visible."""

import pytest

from tests.studio.browser.tab import CROSS, SCREENS, SELECTIONS

pytestmark = pytest.mark.browser

MOST_TABS = 90
FOCUSED = """() => {
  const drawn = (element) => {
    const style = getComputedStyle(element);
    const isFramed = element.matches('rect') && style.stroke !== 'none' && parseFloat(style.strokeWidth) >= 1.5;
    return isFramed || (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1.5);
  };
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  // the grid beside a canvas is not drawn itself: the canvas is framed for it
  const parts = [element, ...element.querySelectorAll('rect'), ...(element.parentElement?.children ?? [])];
  const label = element.getAttribute('aria-label') || element.textContent.trim() || element.id;
  const seen = parts.some((part) => drawn(part)) || element.matches('#main');
  return { name: `${element.tagName} ${label}`.slice(0, 60), seen };
}"""


def tab_to(page, selector):
    """Tab until the focus is on what the selector names."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement?.matches(selector) ?? false", selector):
            return
    pytest.fail(f"Tab never reaches {selector}")


@pytest.mark.parametrize("screen", SCREENS)
def test_every_focusable_element_shows_its_focus(new_tab, screen):
    page = new_tab().open(screen, **SELECTIONS[screen])
    names, unseen = [], []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused is None:
            break
        names.append(focused["name"])
        if not focused["seen"]:
            unseen.append(focused["name"])
    assert len(names) > 10 and unseen == []
    assert names[0].startswith("A Skip")


def test_the_first_focusable_element_skips_the_header(new_tab):
    page = new_tab().open("watch")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_screens_are_reachable_from_the_header(new_tab):
    tab = new_tab()
    page = tab.open("watch")
    tab_to(page, "nav a[href*='/learn']")
    page.keyboard.press("Enter")
    tab.wait("learn")
    assert page.locator("nav a[aria-current=page]").get_attribute("href").startswith("#/learn")


def test_watch_pins_a_weight_and_clears_it(new_tab):
    tab = new_tab()
    page = tab.open("watch", **{**SELECTIONS["watch"], "i": None, "j": None})
    tab_to(page, "[role=grid]")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    tab.wait_for_part("i", 1)
    tab.wait_for_part("j", 2)
    assert "attends" in page.locator("main [aria-live]").filter(has_text="attends").inner_text()
    page.locator("[data-exact]").wait_for()
    page.keyboard.press("ArrowUp")
    tab.wait_for_part("i", 0)
    page.keyboard.press("Escape")
    tab.wait_for_part("i", None)
    assert page.locator("[data-exact]").count() == 0


def test_watch_steps_through_the_decoding(new_tab):
    tab = new_tab()
    page = tab.open("watch", **{**SELECTIONS["watch"], "i": None, "j": None})
    tab_to(page, "[role=group] input[type=range]")
    page.keyboard.press("Home")
    tab.wait_for_part("t", 0)
    page.keyboard.press("ArrowRight")
    tab.wait_for_part("t", 1)
    assert page.locator("main svg .later").count() > 0


def test_compute_steps_through_the_stages_and_opens_a_number(new_tab):
    tab = new_tab()
    page = tab.open("compute", **CROSS)
    tab_to(page, "[aria-current=step]")
    for stage in ("scores", "mask", "weights"):
        page.keyboard.press("ArrowRight")
        tab.wait_for_part("x.stage", stage)
        assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "step"
    page.keyboard.press("ArrowLeft")
    tab.wait_for_part("x.stage", "mask")
    tab_to(page, "td button")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    tab.wait_for_part("x.quantity", "score")
    value = page.locator("section[aria-labelledby=inspector-title] dd").nth(1)
    assert float(value.inner_text())
    tab_to(page, "section[aria-labelledby=inspector-title] .primary")


def test_swap_changes_the_alignment(new_tab):
    tab = new_tab()
    page = tab.open("swap", **CROSS)
    tab_to(page, "form.card .control:nth-of-type(2) select")
    page.keyboard.type("sparsemax")
    tab.wait_for_part("x.align", "sparsemax")
    page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
    assert page.get_by_role("heading", name="Difference").count() == 1


def test_heads_opens_a_head_and_ablates_it(new_tab):
    tab = new_tab()
    page = tab.open("heads", **{**CROSS, "site": None, "head": None})
    tab_to(page, "li button[aria-pressed]")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    tab.wait_for_part("head", 1)
    page.locator("#head-title").wait_for()
    tab_to(page, ".panel .primary")
    page.keyboard.press("Enter")
    page.get_by_text("Without the head").first.wait_for()
    assert tab.errors == []


def test_timeline_moves_and_opens(new_tab):
    tab = new_tab()
    page = tab.open("timeline")
    tab_to(page, "svg [role=button]")
    first = page.evaluate("document.activeElement.dataset.key")
    page.keyboard.press("ArrowRight")
    second = page.evaluate("document.activeElement.dataset.key")
    assert second != first
    page.keyboard.press("Enter")
    tab.wait_for_part("x.item", second)
    page.get_by_role("heading", name="Formula").wait_for()
    page.keyboard.press("Escape")
    tab.wait_for_part("x.item", None)


def test_learn_answers_a_question(new_tab):
    tab = new_tab()
    page = tab.open("learn")
    tab_to(page, "main li a[href*='masked_softmax']")
    page.keyboard.press("Enter")
    page.locator("main form").wait_for()
    before = page.locator("main figure").count()
    tab_to(page, "main form input[type=radio]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("main form.answered").wait_for()
    assert page.locator("main form.answered [role=status]").evaluate("one => one === document.activeElement")
    assert page.locator("main figure").count() > before


def test_runs_chooses_a_run(new_tab):
    tab = new_tab()
    page = tab.open("runs")
    tab_to(page, "fieldset li:nth-child(2) input")
    page.keyboard.press("Space")
    page.wait_for_function("() => document.querySelectorAll('main table tbody tr').length >= 2")
    page.wait_for_function("() => location.hash.includes('x.runs=')")
    assert len(tab.part("x.runs").split(",")) == 2


def test_compare_excludes_a_system(new_tab):
    tab = new_tab()
    page = tab.open("compare", **SELECTIONS["compare"])
    before = page.locator("section.system").count()
    tab_to(page, "fieldset input[type=checkbox]")
    page.keyboard.press("Space")
    page.wait_for_function("count => document.querySelectorAll('section.system').length === count", arg=before - 1)
