"""Language models and classifiers on the page: the numbers are the server's, and the keyboard reaches everything."""

import json
import math

import pytest
import torch
from rich.console import Console

from regard._utils import override
from regard.recipes import make_run
from regard.tasks import fit
from tests.small_models import QUESTION, train_small_models
from tests.studio.browser.conftest import SMALL
from tests.studio.browser.server import StudioProcess
from tests.studio.browser.test_screens import OVERLAPS, WIDER

pytestmark = pytest.mark.browser

NAMES = ("lstm", "lstmn", "gpt", "cnn", "structured_self_attention", "transformer_encoder")
TEXT = "the cat sat on the log .\na bird saw the cat"
QUICK = ("training.schedule.warmup_steps=5", "training.optimizer.learning_rate=0.01", "training.selection.ema=none")
VIEWS = {
    "language": ("watch", {"model": "gpt", "text": TEXT, "t": 5}, "main table [data-probability]"),
    "language-none": ("watch", {"model": "lstm", "text": TEXT}, "main table [data-probability]"),
    "language-readout": ("compute", {"model": "gpt", "text": TEXT, "i": 3, "x.stage": "readout"}, "main pre"),
    "sentences": (
        "watch",
        {"model": "structured_self_attention", "text": QUESTION, "i": 1, "j": 0},
        "main [role=toolbar]",
    ),
    "sentences-heads": ("watch", {"model": "transformer_encoder", "text": QUESTION}, "main [role=grid]"),
}


@pytest.fixture(scope="module")
def reading(browser, tmp_path_factory):
    """A studio with a translator, language models and classifiers that were trained briefly."""
    root = tmp_path_factory.mktemp("reading") / "runs"
    root.mkdir()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        more = {"gpt": ("model.context=64",), "structured_self_attention": ("model.penalty=0.1",)}
        train_small_models(root, NAMES, steps=60, more={name: (*QUICK, *more.get(name, ())) for name in NAMES})
        run = override(make_run("dates", "bahdanau", steps=2), *SMALL, "training.every.validate=2", "data.count=64")
        fit(run, root / "bahdanau", console=Console(quiet=True))
    finally:
        torch.set_num_threads(threads)
    process = StudioProcess(tmp_path_factory.mktemp("reading-home"), root)
    yield process
    process.kill()


@pytest.fixture
def watch(new_tab, reading):
    """Opens one of the views."""

    def opened(view, language="en", width=1440, height=900, **more):
        screen, selection, ready = VIEWS[view]
        tab = new_tab(language, width, height, server=reading, **more)
        page = tab.open(screen, wait=False, **selection)
        page.wait_for_selector(ready)
        page.wait_for_function("() => !document.querySelector('[aria-busy=true], .notice.loading')")
        return tab

    return opened


def shares(page):
    return [float(one.get_attribute("data-probability")) for one in page.locator("main [data-probability]").all()]


def test_next_tokens_equal_those_of_the_server(watch, reading):
    tab = watch("language")
    page, inspection = tab.page, reading.inspect("gpt", TEXT)
    response = reading.get(f"/api/inspections/{inspection['id']}/next", position=5)
    assert shares(page)[:10] == [one["probability"] for one in response["candidates"]]
    state = reading.get(f"/api/inspections/{inspection['id']}/state")
    state_text = page.locator("[data-allocated]")
    assert int(state_text.get_attribute("data-allocated")) == state["allocated"][5]
    assert int(state_text.get_attribute("data-filled")) == state["filled"][5]
    assert "grows with every token" in page.inner_text("main")
    assert page.locator("main [role=grid]").count() > 0


def test_the_text_can_be_stepped_through_with_the_keyboard(watch):
    tab = watch("language")
    page = tab.page
    page.locator("main [role=toolbar] button[aria-pressed=true]").focus()
    page.keyboard.press("ArrowRight")
    tab.wait_for_part("t", 6)
    page.keyboard.press("Home")
    tab.wait_for_part("t", 0)
    assert page.evaluate("document.activeElement.textContent").startswith("the")
    page.wait_for_function("() => document.querySelector('#next-title').textContent.includes('“the”')")
    page.keyboard.press("End")
    tab.wait_for_part("t", 12)
    page.get_by_text("The text ends here").wait_for()


def test_a_text_is_continued_and_inspected(watch, reading):
    tab = watch("language")
    page = tab.page
    page.get_by_label("Tokens", exact=True).fill("5")
    page.get_by_label("Seed", exact=True).fill("7")
    page.keyboard.press("Enter")
    page.wait_for_selector("main [data-log-prob]")
    body = {"model": "gpt", "text": TEXT, "max_tokens": 5, "temperature": 0.8, "top_p": 0.95, "seed": 7}
    answer = json.load(reading.request("/api/generate", body))
    displayed = [float(one.get_attribute("data-log-prob")) for one in page.locator("[data-log-prob]").all()]
    assert displayed == [one["log_prob"] for one in answer["tokens"]] and len(displayed) == 5
    page.get_by_role("button", name="Add to the text").click()
    tab.wait_for_part("text", TEXT + answer["text"])
    page.wait_for_function("() => document.querySelectorAll('main [role=toolbar] button').length === 18")


def test_a_model_without_attention_is_labelled(watch):
    page = watch("language-none").page
    text = page.inner_text("main")
    assert "LSTM has no attention" in text and "The size is fixed" in text
    assert page.locator("main [role=grid]").count() == 0


def test_the_readout_is_reachable_with_arrow_keys(watch, reading):
    tab = watch("language-readout")
    page, inspection = tab.page, reading.inspect("gpt", TEXT)
    response = reading.get(f"/api/inspections/{inspection['id']}/next", position=3)
    assert shares(page)[:10] == [one["probability"] for one in response["candidates"]]
    assert math.isclose(
        sum(shares(page)[:10]) * response["total"], sum(c["exponential"] for c in response["candidates"])
    )
    page.locator("main .stepper [aria-current=step]").focus()
    page.keyboard.press("ArrowLeft")
    tab.wait_for_part("x.stage", "context")
    page.keyboard.press("ArrowRight")
    tab.wait_for_part("x.stage", "readout")
    assert "regard.load" in page.inner_text("main pre")


def test_rows_of_attention_over_the_words(watch, reading):
    tab = watch("sentences")
    page, inspection = tab.page, reading.inspect("structured_self_attention", QUESTION)
    response = reading.get(f"/api/inspections/{inspection['id']}/classes")
    assert page.inner_text("[data-output]") == response["label"]
    assert shares(page) == [one["probability"] for one in response["classes"]]
    weights = reading.weights(inspection, response["site"], 0)
    assert float(page.locator("section [data-exact]").first.inner_text()) == pytest.approx(weights[1, 0], rel=1e-6)
    page.get_by_role("button", name="Row 3").focus()
    page.keyboard.press("Space")
    tab.wait_for_part("i", 2)
    page.locator("main [role=toolbar] button[aria-pressed=true]").focus()
    page.keyboard.press("ArrowRight")
    tab.wait_for_part("j", 1)
    page.wait_for_function(
        "value => Math.abs(document.querySelector('section [data-exact]').textContent - value) < 1e-6",
        arg=float(weights[2, 1]),
    )
    assert "Overlap of the rows" in page.inner_text("main")


def test_a_classifier_without_rows_is_labelled(new_tab, reading):
    page = new_tab(server=reading).open("watch", wait=False, model="cnn", text=QUESTION)
    page.get_by_text("CNN for sentences has no query rows").wait_for()
    assert page.locator("main [role=grid]").count() == 0


def test_systems_are_grouped_by_task(new_tab, reading):
    tab = new_tab(server=reading)
    page = tab.open("watch", wait=False, model="bahdanau", text="5 May 2024")
    page.wait_for_selector("main [role=grid]")
    groups = page.locator("select optgroup").evaluate_all("all => all.map((one) => one.label)")
    assert groups == ["Translation", "Language modeling", "Text classification", "Worked examples"]
    page.locator("main label.model select").select_option("lstmn")
    page.wait_for_selector("main textarea")
    page.locator("main [role=toolbar]").wait_for()
    page = tab.open("compare", wait=False)
    page.get_by_text("Only models of one task are compared").wait_for()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["en 1440 light", "zh 1440 dark", "zh 390 light", "en 390 dark"])
def test_every_view_in_both_languages_and_at_both_widths(watch, violations, view, kind):
    language, width, scheme = kind.split()
    tab = watch(view, language, int(width), bypass_csp=True, color_scheme=scheme)
    assert tab.page.evaluate(WIDER) == []
    assert tab.page.evaluate(OVERLAPS) == []
    tab.screenshot(f"{view}-{language}-{width}")
    assert violations(tab.page) == []
    assert tab.errors == [] and tab.foreign_requests() == []
