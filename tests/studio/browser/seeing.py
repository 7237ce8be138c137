"""What every browser test does with the page: open it at a selection, wait for its content, notice what goes wrong."""

from pathlib import Path
from urllib.parse import urlencode, urlsplit

SCREENS = ("watch", "compute", "swap", "compare", "heads", "runs", "timeline", "learn")
SCREENSHOTS = Path(__file__).parents[1] / "screens"
WIDTHS = {1440: 900, 1024: 768, 390: 844}
LANGUAGES = {"en": "en-GB", "zh": "zh-CN"}
CHOSEN = {"model": "transformer", "text": "3 May 2031"}
CROSS = {**CHOSEN, "site": "decoder.1.cross_attention", "head": 1, "i": 1, "j": 3}
SELECTIONS = {
    "watch": {"model": "bahdanau", "text": "3 May 2031", "site": "alignment", "head": 0, "i": 2, "j": 3},
    "compute": {**CROSS, "x.stage": "weights", "x.quantity": "weight"},
    "swap": {**CROSS, "x.align": "sparsemax"},
    "compare": CHOSEN,
    "heads": CROSS,
    "runs": {},
    "timeline": {"x.item": "system/bahdanau"},
    "learn": {"x.lesson": "masked_softmax"},
}
"""A selection on each screen that shows as much of it as one can."""

READY = {
    "watch": "main [role=grid]",
    "compute": "main td button",
    "swap": "main #swap-entropy",
    "compare": "main section:nth-of-type(1) [role=grid]",
    "heads": "main li button canvas",
    "runs": "main figure canvas",
    "timeline": "main [aria-expanded]",
    "learn": "main form, main li a",
}
"""What is there when a screen has its content."""

SETTLED = """() => !document.querySelector('[aria-busy=true], .notice.loading')"""


def address_of(screen, **selection):
    query = urlencode({name: value for name, value in selection.items() if value is not None})
    return f"#/{screen}" + (f"?{query}" if query else "")


class Seen:
    """A page and what happened on it."""

    def __init__(self, page, serving):
        self.page, self.serving = page, serving
        self.errors, self.requests = [], []
        page.on("console", self.hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def hear(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def open(self, screen, wait=True, **selection):
        """The page from anew, as if its address were typed in."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.serving.origin}/?token={self.serving.token}{address_of(screen, **selection)}")
        return self.wait(screen) if wait else self.page

    def wait(self, screen):
        self.page.wait_for_selector(READY[screen], state="attached")
        self.page.wait_for_function(SETTLED)
        return self.page

    def foreign(self):
        """Requests that left the server's own origin."""
        kept = ("data:", "blob:", "about:")
        own = urlsplit(self.serving.origin).netloc
        return [url for url in self.requests if not url.startswith(kept) and urlsplit(url).netloc != own]

    def part(self, name):
        """One part of the selection, as the address has it."""
        script = """name => new URLSearchParams(location.hash.split('?')[1] ?? '').get(name)"""
        return self.page.evaluate(script, name)

    def wait_part(self, name, value):
        script = """([name, value]) =>
            new URLSearchParams(location.hash.split('?')[1] ?? '').get(name) === value"""
        self.page.wait_for_function(script, arg=[name, None if value is None else str(value)])

    def shoot(self, name):
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
