"""What the system prefers: no motion where it wants none, dark where it is dark."""

import pytest

from tests.studio.browser.seeing import SELECTIONS

pytestmark = pytest.mark.browser

AT = {**SELECTIONS["watch"], "i": None, "j": None}
MOVING = """() => [...document.querySelectorAll('*')].filter((element) => {
  const style = getComputedStyle(element);
  return [style.transitionDuration, style.animationDuration].some((times) =>
    times.split(',').some((time) => parseFloat(time) > 0.011));
}).map((element) => element.className)"""
PAPER = "getComputedStyle(document.body).backgroundColor"


def test_play_writes_the_answer_step_by_step(see):
    seen = see()
    page = seen.open("watch", **AT)
    unwritten = page.locator("main svg .unwritten")
    assert unwritten.count() == 0
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => document.querySelectorAll('main svg .unwritten').length > 0")
    before = unwritten.count()
    # each step sets the next
    page.wait_for_function("before => document.querySelectorAll('main svg .unwritten').length < before - 2", arg=before)
    page.get_by_role("button", name="Pause").click()
    left = unwritten.count()
    page.wait_for_timeout(900)
    assert unwritten.count() == left


def test_reduced_motion_steps_by_hand_alone(see):
    seen = see(reduced_motion="reduce")
    page = seen.open("watch", **AT)
    assert page.get_by_role("button", name="Play").count() == 0
    page.get_by_role("button", name="Previous step").click()
    page.get_by_role("button", name="Previous step").click()
    assert page.locator("main svg .unwritten").count() == 2
    page.get_by_role("button", name="Next step").click()
    assert page.locator("main svg .unwritten").count() == 1
    assert page.evaluate(MOVING) == []


def test_dark_follows_the_system_until_one_chooses(see):
    seen = see(color_scheme="dark")
    page = seen.open("watch", **AT)
    dark = page.evaluate(PAPER)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(PAPER)
    assert dark != light == "rgb(255, 255, 255)"
    page.locator("header select").nth(1).select_option("dark")
    assert page.evaluate(PAPER) == dark
    page.reload()
    seen.wait("watch")
    assert page.evaluate(PAPER) == dark
