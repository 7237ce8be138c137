"""How soon the studio's page draws: its first paint, and from a key pressed to the picture of another text.

    python -m benchmarks.studio_page DEMO

DEMO is a folder that `regard demo` wrote. It needs Playwright, Chromium and the built page (`make page`).
"""

import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, commit, machine
from benchmarks.studio import Server

TRIES = 11
SYSTEMS = ("bahdanau", "transformer")
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
"""Record when a key was typed, when weights arrived and when a matrix was drawn."""
DRAWN = """() => {
  const data = window.marks.findLast(([name]) => name === 'data');
  return data !== undefined && window.marks.some(([name, time]) => name === 'drawn' && time >= data[1]);
}"""
READY = "main [role=grid]"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def first_paints(browser: Any, address: str) -> Iterator[float]:
    """Milliseconds from the address to the first content, each in a new context."""
    for _ in range(TRIES):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{address}#/watch")
        page.wait_for_selector(READY, state="attached")
        yield page.evaluate(PAINTED)
        context.close()


def keys_to_pictures(browser: Any, address: str, model: str) -> Iterator[float]:
    """Milliseconds from a key to the picture of its weights."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(WATCHED)
    page.goto(f"{address}#/watch?model={model}&text=May+3,+2031")
    page.wait_for_selector(READY, state="attached")
    text = page.get_by_label("Text", exact=True)
    for day in range(10, 10 + TRIES):
        text.fill(f"May {day}, 203")
        page.wait_for_function(DRAWN)
        page.wait_for_timeout(500)
        page.evaluate("window.marks = []")
        text.press("End")
        page.keyboard.type("1")
        page.wait_for_function(DRAWN)
        marks = page.evaluate("window.marks")
        typed = max(time for name, time in marks if name == "typed")
        data = max(time for name, time in marks if name == "data")
        yield min(time for name, time in marks if name == "drawn" and time >= data) - typed
    context.close()


def summary(milliseconds: Iterator[float]) -> dict[str, float]:
    """The median and the middle half."""
    low, median, high = statistics.quantiles(milliseconds, n=4)
    return {"median": round(median, 1), "low": round(low, 1), "high": round(high, 1)}


def run(demo: Path) -> dict[str, Any]:
    """All figures, in milliseconds."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
    if chromium is None:
        sys.exit("there is no Chromium. Install it with: apt-get install chromium")
    with tempfile.TemporaryDirectory() as home:
        server = Server.start(demo, home)
        address = f"{server.address}/?token={server.headers['Authorization'].removeprefix('Bearer ')}"
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                figures: dict[str, Any] = {"first paint, ms": summary(first_paints(browser, address))}
                for model in SYSTEMS:
                    pictures = keys_to_pictures(browser, address, model)
                    figures[f"from a key to the picture, {model}, ms"] = summary(pictures)
                browser.close()
        finally:
            server.process.terminate()
            server.process.wait(30)
    where = {"machine": machine(), "commit": commit(), "command": "python -m benchmarks.studio_page DEMO"}
    return {**where, "tries": TRIES, **figures}


def main() -> None:
    """Print and save the record."""
    text = json.dumps(run(Path(sys.argv[1])), indent=2) + "\n"
    print(text)
    (RESULTS / "studio_page.json").write_text(text)


if __name__ == "__main__":
    main()
