"""axe finds no violation on any screen, in the light and the dark theme."""

import pytest

from tests.studio.browser.tab import SCREENS, SELECTIONS

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_no_violation(new_tab, violations, screen, scheme):
    tab = new_tab("zh" if scheme == "dark" else "en", bypass_csp=True, color_scheme=scheme)
    page = tab.open(screen, **SELECTIONS[screen])
    if scheme == "dark":
        tab.screenshot(f"{screen}-dark")
    assert violations(page) == []


@pytest.mark.parametrize("screen", ["watch", "timeline", "learn"])
def test_axe_finds_no_violation_on_a_phone(new_tab, violations, screen):
    page = new_tab("zh", width=390, height=844, bypass_csp=True).open(screen)
    assert violations(page) == []


def test_axe_finds_no_violation_in_an_open_menu(new_tab, violations):
    page = new_tab(bypass_csp=True).open("watch", **SELECTIONS["watch"])
    page.get_by_role("button", name="Save").click()
    page.get_by_role("menuitem").first.wait_for()
    assert violations(page) == []
