"""The numbers of Compute equal those of torch and of the copied code."""

import contextlib
import io
import random
import subprocess
import sys

import pytest
import torch

import regard
from regard.contracts import BOS, EOS, LengthLimit, PaddedTokens
from regard.decoding import decode
from tests.studio.browser.tab import CHOSEN

pytestmark = pytest.mark.browser

TEXT = CHOSEN["text"]
SELECTIONS = 10
QUANTITIES = ("query", "key", "score", "weight", "value", "product", "context")


class Traced:
    """The attention maps of a system while it decodes, without the studio."""

    def __init__(self, folder):
        translator = regard.load(folder, device="cpu")
        self.source = [*translator.tokenizers.source.encode(TEXT), EOS]
        with torch.inference_mode():
            results = decode(translator.model, PaddedTokens.from_lists([self.source]), limit=LengthLimit())[0][0]
            self.labels = [*results.ids, *([EOS] if results.finished else [])]
            source = PaddedTokens.from_lists([[BOS, *self.labels[:-1]]])
            with regard.trace(translator.model) as maps:
                translator.model(PaddedTokens.from_lists([self.source]), source)
        self.maps = dict(maps.items())

    def place(self, path, query):
        """The attention map that contains a query, and the index of the query in it."""
        for source in self.maps[path]:
            if query < source.weights.shape[-2]:
                return source, query
            query -= source.weights.shape[-2]
        raise AssertionError(path)

    def value(self, path, head, quantity, query, key, dimension):
        """One number by its definition, in double precision where it is computed from others."""
        source, at = self.place(path, query)

        def of(name):
            tensor = getattr(source, name)[0].double()
            return tensor[head] if tensor.ndim > 2 else tensor

        with torch.inference_mode():
            lowered = source.score.lower(source.queries, source.keys)
            queries, keys = (
                (one[0][head] if one.ndim > 3 else one[0]).double() for one in (lowered.queries, lowered.keys)
            )
        if hasattr(lowered, "energy"):
            scores = (queries[at] + keys).tanh() @ lowered.energy.detach().double()
        else:
            scores = lowered.scale * (keys @ queries[at])
        if source.allowed is not None:
            allowed = source.allowed.broadcast_to(source.weights.shape)[0]
            masked = scores.masked_fill(~(allowed[head] if allowed.ndim > 2 else allowed)[at], -torch.inf)
        else:
            masked = scores
        weights, values = masked.softmax(-1), of("values")
        results = {
            "query": lambda: queries[at, dimension],
            "key": lambda: keys[key, dimension],
            "score": lambda: scores[key],
            "weight": lambda: weights[key],
            "value": lambda: values[key, dimension],
            "product": lambda: weights[key] * values[key, dimension],
            "context": lambda: weights @ values[:, dimension],
        }
        return results[quantity]().item()


@pytest.fixture(scope="module")
def traced(demo):
    return {name: Traced(demo / name) for name in ("bahdanau", "transformer")}


def choose(traced, place):
    """A number somewhere in a system."""
    chance = random.Random(place)
    name = ("transformer", "bahdanau")[place % 2]
    system = traced[name]
    path = chance.choice(sorted(system.maps))
    last = system.maps[path][-1]
    queries = sum(source.weights.shape[-2] for source in system.maps[path])
    return {
        "model": name,
        "site": path,
        "head": chance.randrange(last.weights.shape[1] if last.weights.ndim > 3 else 1),
        "quantity": QUANTITIES[place % len(QUANTITIES)],
        "query": chance.randrange(queries),
        "key": chance.randrange(last.weights.shape[-1]),
        "dimension": chance.randrange(min(last.values.shape[-1], 16)),
    }


def printed(snippet, *, alone):
    """The output of the code in a new Python process."""
    if alone:
        return subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=True).stdout
    printed_text = io.StringIO()
    with contextlib.redirect_stdout(printed_text):
        exec(snippet, {})
    return printed_text.getvalue()


@pytest.mark.parametrize("place", range(SELECTIONS))
def test_a_number_is_torchs_and_its_code_prints_it(new_tab, traced, place):
    at = choose(traced, place)
    tab = new_tab(permissions=["clipboard-read", "clipboard-write"])
    more = {"x.quantity": at["quantity"], "x.dimension": at["dimension"], "x.stage": "vectors"}
    link = {"model": at["model"], "text": TEXT, "site": at["site"], "head": at["head"], "i": at["query"]}
    page = tab.open("compute", **link, j=at["key"], **more)
    panel = page.locator("section[aria-labelledby=inspector-title]")
    panel.locator("dd").nth(1).wait_for()
    assert f"{at['site']}" in panel.locator("code.address").inner_text()
    displayed = float(panel.locator("dd").nth(1).inner_text())
    real = traced[at["model"]].value(
        **{"path": at["site"]} | {k: v for k, v in at.items() if k not in ("model", "site")}
    )
    assert displayed == pytest.approx(real, abs=1e-6, rel=1e-6)
    panel.get_by_role("button", name="Copy as PyTorch").click()
    panel.get_by_text("Copied").wait_for()
    snippet = page.evaluate("navigator.clipboard.readText()")
    assert float(printed(snippet, alone=place == 0)) == pytest.approx(displayed, abs=1e-6, rel=1e-6)


def test_the_table_has_the_same_number_and_opens_it(new_tab):
    tab = new_tab()
    page = tab.open("compute", **CHOSEN, site="decoder.1.cross_attention", head=2, i=1, **{"x.stage": "weights"})
    button = page.get_by_role("button", name="weight[1,4]")
    listed = float(button.inner_text())
    button.click()
    value = page.locator("section[aria-labelledby=inspector-title] dd").nth(1)
    value.wait_for()
    assert float(value.inner_text()) == pytest.approx(listed, abs=5.1e-4)
    assert button.get_attribute("aria-pressed") == "true"
    exact = page.locator("section[aria-labelledby=inspector-title] .link").first
    exact.click()
    tab.wait_for_part("x.quantity", "score")
