"""How fast the page is: its first paint, its size, a large head, and from a key pressed to the picture.

Times are medians of several tries; beside other work they vary, so that the best of a few rounds counts.
"""

import gzip
import json
import statistics
from importlib.resources import files
from pathlib import Path

import pytest

from tests.studio.browser.seeing import Seen, record

pytestmark = pytest.mark.browser

ROUNDS, TRIES = 5, 5
LARGE = 1024
WATCHED = """
  performance.setResourceTimingBufferSize(10000);
  window.marks = [];
  const read = Response.prototype.arrayBuffer;
  Response.prototype.arrayBuffer = async function () {
    const isWeights = this.url.includes('/weights');
    const data = await read.call(this);
    if (isWeights) window.marks.push(['data', performance.now()]);
    return data;
  };
  addEventListener('input', () => window.marks.push(['typed', performance.now()]), true);
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.name === 'matrix-draw') window.marks.push(['drawn', entry.startTime + entry.duration]);
    }
  }).observe({ entryTypes: ['measure'] });
"""
DRAWN = """() => {
  const data = window.marks.findLast(([name]) => name === 'data');
  return data !== undefined && window.marks.some(([name, time]) => name === 'drawn' && time >= data[1]);
}"""


def steadily(measure, limit, name):
    """The median of a round, the first below the limit or else the best, in milliseconds."""
    medians = []
    for _ in range(ROUNDS):
        medians.append(statistics.median(measure()))
        if medians[-1] < limit:
            break
    record(name, {"milliseconds": round(min(medians), 1), "limit": limit, "rounds": len(medians)})
    return min(medians)


def taken(page, start):
    """From the last mark of a kind over data to what is drawn of it."""
    page.wait_for_function(DRAWN)
    marks = page.evaluate("window.marks")
    begun = max(time for name, time in marks if name == start)
    data = max(time for name, time in marks if name == "data")
    assert data >= begun
    return min(time for name, time in marks if name == "drawn" and time >= data) - begun


def test_first_paint_within_a_second(see):
    def measure():
        for _ in range(TRIES):
            page = see().open("watch")
            yield page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            page.context.close()

    assert steadily(measure, 1000, "first paint") < 1000


def test_the_bundle_is_small():
    static = Path(str(files("regard.studio").joinpath("static")))
    parts = [path for path in static.rglob("*") if path.suffix in (".js", ".css", ".html")]
    size = sum(len(gzip.compress(path.read_bytes())) for path in parts)
    record("bundle", {"bytes gzipped": size, "limit": 250_000})
    assert 10_000 < size < 250_000


def large_look(heads):
    tokens = [f"t{place}" for place in range(LARGE)]
    pieces = [{"text": text, "first": at, "last": at, "mark": False} for at, text in enumerate(tokens)]
    sides = [{"name": name, "tokens": tokens, "pieces": pieces} for name in ("source", "target", "read")]
    site = {
        "path": "large", "layer": "large", "kind": "source", "heads": heads, "queries": "source", "keys": "source",
        "score": "dot", "align": "softmax",
    }  # fmt: skip
    return {
        "id": "large", "model": "bahdanau", "text": "3 May 2031", "answer": "large", "given": False, "log_prob": -1,
        "num_dropped": 0, "sides": sides, "sites": [site], "milliseconds": 1, "milliseconds_per_token": 1,
    }  # fmt: skip


def test_a_head_of_1024_tokens_is_drawn_within_100_milliseconds(see):
    seen: Seen = see()
    page, heads = seen.page, 1 + ROUNDS * TRIES
    page.add_init_script(WATCHED)
    body = bytes((row * 7 + column * 13) % 256 for row in range(LARGE) for column in range(LARGE))
    sizes = {"X-Queries": str(LARGE), "X-Keys": str(LARGE), "X-High": "0.9"}
    look = json.dumps(large_look(heads))
    page.route("**/api/looks", lambda route: route.fulfill(body=look, content_type="application/json"))
    page.route(
        "**/api/looks/large/weights*",
        lambda route: route.fulfill(body=body, headers=sizes, content_type="application/octet-stream"),
    )
    seen.open("watch", model="bahdanau", text="3 May 2031", site="large", head=0)
    taken(page, "data")
    chooser, untried = page.get_by_role("combobox", name="Head"), iter(range(1, heads))

    def measure():
        for _ in range(TRIES):
            page.evaluate("window.marks = []")
            chooser.select_option(str(next(untried)))
            yield taken(page, "data")

    best = steadily(measure, 100, "1024-token head after its data")
    seen.shoot("watch-1024")
    assert best < 100


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_from_a_key_to_the_picture_within_300_milliseconds(see, model):
    seen = see()
    page = seen.page
    page.add_init_script(WATCHED)
    seen.open("watch", model=model, text="May 3, 2031")
    field = page.get_by_label("Text", exact=True)
    days = iter(range(10, 10 + ROUNDS * TRIES))

    def measure():
        for _ in range(TRIES):
            field.fill(f"May {next(days)}, 203")
            seen.wait("watch")
            page.wait_for_timeout(300)
            page.evaluate("window.marks = []")
            field.press("End")
            page.keyboard.type("1")
            yield taken(page, "typed")

    assert steadily(measure, 300, f"from a key to the picture, {model}") < 300
