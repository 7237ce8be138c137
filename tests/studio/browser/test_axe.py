"""axe finds nothing to object to on any screen, in the light and in the dark."""

import pytest

from tests.studio.browser.seeing import SCREENS, SELECTIONS

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_to_object_to(see, violations, screen, scheme):
    seen = see("zh" if scheme == "dark" else "en", bypass_csp=True, color_scheme=scheme)
    page = seen.open(screen, **SELECTIONS[screen])
    if scheme == "dark":
        seen.shoot(f"{screen}-dark")
    assert violations(page) == []


@pytest.mark.parametrize("screen", ["watch", "timeline", "learn"])
def test_nothing_to_object_to_on_a_phone(see, violations, screen):
    page = see("zh", width=390, height=844, bypass_csp=True).open(screen)
    assert violations(page) == []


def test_nothing_to_object_to_in_an_open_menu(see, violations):
    page = see(bypass_csp=True).open("watch", **SELECTIONS["watch"])
    page.get_by_role("button", name="Save").click()
    page.get_by_role("menuitem").first.wait_for()
    assert violations(page) == []
