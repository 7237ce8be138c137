"""Language models and classifiers on the page: what is shown is the server's, and the keyboard alone can do it all."""

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
from tests.studio.browser.serving import Serving
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
    """A studio with a translator, language models and classifiers that have learnt a little."""
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
    made = Serving(tmp_path_factory.mktemp("reading-home"), root)
    yield made
    made.kill()


@pytest.fixture
def watch(see, reading):
    """Opens one of the views."""

    def opened(view, language="en", width=1440, height=900, **more):
        screen, selection, ready = VIEWS[view]
        seen = see(language, width, height, serving=reading, **more)
        page = seen.open(screen, wait=False, **selection)
        page.wait_for_selector(ready)
        page.wait_for_function("() => !document.querySelector('[aria-busy=true], .notice.loading')")
        return seen

    return opened


def shares(page):
    return [float(one.get_attribute("data-probability")) for one in page.locator("main [data-probability]").all()]


def test_what_comes_next_is_what_the_server_says(watch, reading):
    seen = watch("language")
    page, look = seen.page, reading.look("gpt", TEXT)
    told = reading.get(f"/api/inspections/{look['id']}/next", place=5)
    assert shares(page)[:10] == [one["probability"] for one in told["candidates"]]
    state = reading.get(f"/api/inspections/{look['id']}/reading")
    kept = page.locator("[data-taken]")
    assert int(kept.get_attribute("data-taken")) == state["taken"][5]
    assert int(kept.get_attribute("data-filled")) == state["filled"][5]
    assert "grows with every token" in page.inner_text("main")
    assert page.locator("main [role=grid]").count() > 0


def test_the_text_is_read_with_the_keyboard_alone(watch):
    seen = watch("language")
    page = seen.page
    page.locator("main [role=toolbar] button[aria-pressed=true]").focus()
    page.keyboard.press("ArrowRight")
    seen.wait_part("t", 6)
    page.keyboard.press("Home")
    seen.wait_part("t", 0)
    assert page.evaluate("document.activeElement.textContent").startswith("the")
    page.wait_for_function("() => document.querySelector('#next-title').textContent.includes('“the”')")
    page.keyboard.press("End")
    seen.wait_part("t", 12)
    page.get_by_text("The text ends here").wait_for()


def test_a_text_goes_on_and_is_read_too(watch, reading):
    seen = watch("language")
    page = seen.page
    page.get_by_label("Tokens", exact=True).fill("5")
    page.get_by_label("Seed", exact=True).fill("7")
    page.keyboard.press("Enter")
    page.wait_for_selector("main [data-log-prob]")
    asked = {"model": "gpt", "text": TEXT, "max_tokens": 5, "temperature": 0.8, "top_p": 0.95, "seed": 7}
    answer = json.load(reading.ask("/api/generate", asked))
    shown = [float(one.get_attribute("data-log-prob")) for one in page.locator("[data-log-prob]").all()]
    assert shown == [one["log_prob"] for one in answer["tokens"]] and len(shown) == 5
    page.get_by_role("button", name="Read this too").click()
    seen.wait_part("text", TEXT + answer["text"])
    page.wait_for_function("() => document.querySelectorAll('main [role=toolbar] button').length === 18")


def test_what_looks_back_at_nothing_says_so(watch):
    page = watch("language-none").page
    text = page.inner_text("main")
    assert "LSTM looks back at nothing" in text and "The size is fixed" in text
    assert page.locator("main [role=grid]").count() == 0


def test_the_readout_is_reached_by_arrow_keys(watch, reading):
    seen = watch("language-readout")
    page, look = seen.page, reading.look("gpt", TEXT)
    told = reading.get(f"/api/inspections/{look['id']}/next", place=3)
    assert shares(page)[:10] == [one["probability"] for one in told["candidates"]]
    assert math.isclose(sum(shares(page)[:10]) * told["total"], sum(c["exponential"] for c in told["candidates"]))
    page.locator("main .stepper [aria-current=step]").focus()
    page.keyboard.press("ArrowLeft")
    seen.wait_part("x.stage", "context")
    page.keyboard.press("ArrowRight")
    seen.wait_part("x.stage", "readout")
    assert "regard.load" in page.inner_text("main pre")


def test_rows_of_attention_over_the_words(watch, reading):
    seen = watch("sentences")
    page, look = seen.page, reading.look("structured_self_attention", QUESTION)
    told = reading.get(f"/api/inspections/{look['id']}/classes")
    assert page.inner_text("[data-answer]") == told["label"]
    assert shares(page) == [one["probability"] for one in told["classes"]]
    weights = reading.weights(look, told["site"], 0)
    assert float(page.locator("section [data-exact]").first.inner_text()) == pytest.approx(weights[1, 0], rel=1e-6)
    page.get_by_role("button", name="Row 3").focus()
    page.keyboard.press("Space")
    seen.wait_part("i", 2)
    page.locator("main [role=toolbar] button[aria-pressed=true]").focus()
    page.keyboard.press("ArrowRight")
    seen.wait_part("j", 1)
    page.wait_for_function(
        "value => Math.abs(document.querySelector('section [data-exact]').textContent - value) < 1e-6",
        arg=float(weights[2, 1]),
    )
    assert "Overlap of the rows" in page.inner_text("main")


def test_a_classifier_without_rows_says_so(see, reading):
    page = see(serving=reading).open("watch", wait=False, model="cnn", text=QUESTION)
    page.get_by_text("CNN for sentences has no rows of attention").wait_for()
    assert page.locator("main [role=grid]").count() == 0


def test_systems_of_all_kinds_are_chosen_in_groups(see, reading):
    seen = see(serving=reading)
    page = seen.open("watch", wait=False, model="bahdanau", text="5 May 2024")
    page.wait_for_selector("main [role=grid]")
    groups = page.locator("select optgroup").evaluate_all("all => all.map((one) => one.label)")
    assert groups == ["Translators", "Language models", "Classifiers", "Worked examples"]
    page.locator("main label.model select").select_option("lstmn")
    page.wait_for_selector("main textarea")
    page.locator("main [role=toolbar]").wait_for()
    page = seen.open("compare", wait=False)
    page.get_by_text("Only translators are compared").wait_for()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["en 1440 light", "zh 1440 dark", "zh 390 light", "en 390 dark"])
def test_every_view_in_both_languages_and_at_both_widths(watch, violations, view, kind):
    language, width, scheme = kind.split()
    seen = watch(view, language, int(width), bypass_csp=True, color_scheme=scheme)
    assert seen.page.evaluate(WIDER) == []
    assert seen.page.evaluate(OVERLAPS) == []
    seen.shoot(f"{view}-{language}-{width}")
    assert violations(seen.page) == []
    assert seen.errors == [] and seen.foreign() == []
