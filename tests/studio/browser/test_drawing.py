"""The page is small, large heads are drawn, and typing draws again; benchmarks/studio_page.py has the times."""

import gzip
import json
from importlib.resources import files
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

LARGE, HEADS = 1024, 3
WATCHED = """
  window.marks = [];
  const read = Response.prototype.arrayBuffer;
  Response.prototype.arrayBuffer = async function () {
    const isWeights = this.url.includes('/weights');
    const data = await read.call(this);
    if (isWeights) window.marks.push(['data', performance.now()]);
    return data;
  };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.name === 'matrix-draw') window.marks.push(['drawn', entry.startTime + entry.duration]);
    }
  }).observe({ entryTypes: ['measure'] });
"""
"""Record when weights arrived and when a matrix was drawn."""
DRAWN = """() => {
  const data = window.marks.findLast(([name]) => name === 'data');
  return data !== undefined && window.marks.some(([name, time]) => name === 'drawn' && time >= data[1]);
}"""


def test_the_bundle_is_small():
    static = Path(str(files("regard.studio").joinpath("static")))
    if not (static / "index.html").is_file():
        pytest.skip("the page is not built: run `make page`")
    parts = [path for path in static.rglob("*") if path.suffix in (".js", ".css", ".html")]
    assert 10_000 < sum(len(gzip.compress(path.read_bytes())) for path in parts) < 250_000


def large_inspection(heads):
    tokens = [f"t{index}" for index in range(LARGE)]
    labels = [{"text": text, "first": at, "last": at, "mark": False} for at, text in enumerate(tokens)]
    axes = [
        {"name": name, "kind": "tokens", "title": {"en": name, "zh": name}, "tokens": tokens, "texts": [],
         "unknown": [], "labels": labels, "grid": None, "is_stepwise": False}
        for name in ("source", "target")
    ]  # fmt: skip
    site = {
        "path": "large", "layer": "large", "heads": heads, "queries": "target", "keys": "source", "score": "dot",
        "align": "softmax", "is_causal": False, "is_stepwise": False, "has_scores": True,
    }  # fmt: skip
    return {
        "id": "large", "model": "bahdanau", "input": "3 May 2031", "output": "large", "forced": False, "log_prob": -1,
        "num_dropped": 0, "drops_start": False, "axes": axes, "sites": [site], "panels": [], "unknown": [],
        "milliseconds": 1, "milliseconds_per_token": 1,
    }  # fmt: skip


def test_each_head_of_1024_tokens_is_drawn(new_tab):
    tab = new_tab()
    page = tab.page
    page.add_init_script(WATCHED)
    body = bytes((row * 7 + column * 13) % 256 for row in range(LARGE) for column in range(LARGE))
    sizes = {"X-Queries": str(LARGE), "X-Keys": str(LARGE), "X-High": "0.9"}
    inspection = json.dumps(large_inspection(HEADS))
    page.route("**/api/inspections", lambda route: route.fulfill(body=inspection, content_type="application/json"))
    page.route(
        "**/api/inspections/large/weights*",
        lambda route: route.fulfill(body=body, headers=sizes, content_type="application/octet-stream"),
    )
    tab.open("watch", model="bahdanau", text="3 May 2031", site="large", head=0)
    page.wait_for_function(DRAWN)
    chooser = page.get_by_role("combobox", name="Head")
    for head in range(1, HEADS):
        page.evaluate("window.marks = []")
        chooser.select_option(str(head))
        page.wait_for_function(DRAWN)
    tab.screenshot("watch-1024")


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_a_key_selects_another_picture(new_tab, model):
    tab = new_tab()
    page = tab.page
    page.add_init_script(WATCHED)
    tab.open("watch", model=model, text="May 3, 203")
    page.wait_for_timeout(300)
    page.evaluate("window.marks = []")
    page.get_by_label("Text", exact=True).press("End")
    page.keyboard.type("1")
    page.wait_for_function(DRAWN)
    tab.wait_for_part("text", "May 3, 2031")
