"""Worked examples stand beside the systems: they can be watched, computed and swapped, but answer nothing."""

import contextlib
import io

import pytest

from tests.studio.browser.seeing import Seen

pytestmark = pytest.mark.browser

EXAMPLE, TEXT = "example:journey", "Your journey starts"


@pytest.fixture(autouse=True)
def _listed(serving):
    if not any(card["name"] == EXAMPLE for card in serving.get("/api/state")["models"]):
        pytest.skip("the registry has no worked examples")


def test_they_are_grouped_and_their_text_is_fixed(see):
    seen: Seen = see()
    page = seen.open("watch", model=EXAMPLE)
    assert page.locator("main optgroup option[value='example:journey']").count() == 1
    field = page.get_by_label("Text", exact=True)
    assert field.count() == 0 or not field.is_editable()
    assert page.locator("[data-answer]").count() == 0
    seen.shoot("example-watch")
    assert seen.errors == []


def test_their_numbers_can_be_made_again(see):
    seen = see(permissions=["clipboard-read", "clipboard-write"])
    page = seen.open("compute", model=EXAMPLE, text=TEXT, site="attention", head=0, i=2, **{"x.stage": "weights"})
    page.get_by_role("button", name="weight[2,1]").click()
    panel = page.locator("section[aria-labelledby=inspector-title]")
    panel.get_by_role("button", name="Copy as PyTorch").click()
    panel.get_by_text("Copied").wait_for()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(page.evaluate("navigator.clipboard.readText()"), {})
    shown = float(panel.locator("dd").nth(1).inner_text())
    assert float(said.getvalue()) == pytest.approx(shown, abs=1e-6)
    assert seen.errors == []


def test_they_are_swapped_without_an_answer(see):
    seen = see()
    page = seen.open("swap", model=EXAMPLE, **{"x.align": "sparsemax"})
    assert page.get_by_role("heading", name="Difference").count() == 1
    seen.shoot("example-swap")
    assert seen.errors == []


def test_they_are_not_compared_and_no_head_is_taken_out(see):
    seen = see()
    page = seen.open("compare")
    assert page.locator("main fieldset input").count() == 3
    page = seen.open("heads", model=EXAMPLE, site="attention", head=0)
    page.locator("#opened-title").wait_for()
    assert page.get_by_role("button", name="Ablate this head").count() == 0
    assert seen.errors == []
