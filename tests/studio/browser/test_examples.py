"""Worked examples are listed with the systems: they can be inspected, computed and swapped, but have no output."""

import contextlib
import io

import pytest

from tests.studio.browser.tab import Tab

pytestmark = pytest.mark.browser

EXAMPLE, TEXT = "example:journey", "Your journey starts"


@pytest.fixture(autouse=True)
def _listed(server):
    if not any(card["name"] == EXAMPLE for card in server.get("/api/state")["models"]):
        pytest.skip("the registry has no worked examples")


def test_examples_are_grouped_and_their_text_is_fixed(new_tab):
    tab: Tab = new_tab()
    page = tab.open("watch", model=EXAMPLE)
    assert page.locator("main optgroup option[value='example:journey']").count() == 1
    field = page.get_by_label("Text", exact=True)
    assert field.count() == 0 or not field.is_editable()
    assert page.locator("[data-output]").count() == 0
    tab.screenshot("example-watch")
    assert tab.errors == []


def test_numbers_of_examples_can_be_computed_by_their_code(new_tab):
    tab = new_tab(permissions=["clipboard-read", "clipboard-write"])
    page = tab.open("compute", model=EXAMPLE, text=TEXT, site="attention", head=0, i=2, **{"x.stage": "weights"})
    page.get_by_role("button", name="weight[2,1]").click()
    panel = page.locator("section[aria-labelledby=inspector-title]")
    panel.get_by_role("button", name="Copy as PyTorch").click()
    panel.get_by_text("Copied").wait_for()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(page.evaluate("navigator.clipboard.readText()"), {})
    displayed = float(panel.locator("dd").nth(1).inner_text())
    assert float(output.getvalue()) == pytest.approx(displayed, abs=1e-6)
    assert tab.errors == []


def test_examples_are_swapped_without_an_output(new_tab):
    tab = new_tab()
    page = tab.open("swap", model=EXAMPLE, **{"x.align": "sparsemax"})
    assert page.get_by_role("heading", name="Difference").count() == 1
    tab.screenshot("example-swap")
    assert tab.errors == []


def test_examples_are_neither_compared_nor_ablated(new_tab):
    tab = new_tab()
    page = tab.open("compare")
    assert page.locator("main fieldset input").count() == 3
    page = tab.open("heads", model=EXAMPLE, site="attention", head=0)
    page.locator("#head-title").wait_for()
    assert page.get_by_role("button", name="Ablate this head").count() == 0
    assert tab.errors == []
