"""Preferences of the system: reduced motion and the dark theme."""

import pytest

from tests.studio.browser.tab import SELECTIONS

pytestmark = pytest.mark.browser

AT = {**SELECTIONS["watch"], "i": None, "j": None}
MOVING = """() => [...document.querySelectorAll('*')].filter((element) => {
  const style = getComputedStyle(element);
  return [style.transitionDuration, style.animationDuration].some((times) =>
    times.split(',').some((time) => parseFloat(time) > 0.011));
}).map((element) => element.className)"""
PAPER = "getComputedStyle(document.body).backgroundColor"


def test_play_shows_the_output_step_by_step(new_tab):
    tab = new_tab()
    page = tab.open("watch", **AT)
    later_tokens = page.locator("main svg .later")
    assert later_tokens.count() == 0
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => document.querySelectorAll('main svg .later').length > 0")
    before = later_tokens.count()
    # each step sets the next
    page.wait_for_function("before => document.querySelectorAll('main svg .later').length < before - 2", arg=before)
    page.get_by_role("button", name="Pause").click()
    left = later_tokens.count()
    page.wait_for_timeout(900)
    assert later_tokens.count() == left


def test_reduced_motion_has_manual_steps_only(new_tab):
    tab = new_tab(reduced_motion="reduce")
    page = tab.open("watch", **AT)
    assert page.get_by_role("button", name="Play").count() == 0
    page.get_by_role("button", name="Previous step").click()
    page.get_by_role("button", name="Previous step").click()
    assert page.locator("main svg .later").count() == 2
    page.get_by_role("button", name="Next step").click()
    assert page.locator("main svg .later").count() == 1
    assert page.evaluate(MOVING) == []


def test_the_theme_follows_the_system_until_it_is_chosen(new_tab):
    tab = new_tab(color_scheme="dark")
    page = tab.open("watch", **AT)
    dark = page.evaluate(PAPER)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(PAPER)
    assert dark != light == "rgb(255, 255, 255)"
    page.locator("header select").nth(1).select_option("dark")
    assert page.evaluate(PAPER) == dark
    page.reload()
    tab.wait("watch")
    assert page.evaluate(PAPER) == dark
