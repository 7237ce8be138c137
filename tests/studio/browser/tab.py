"""A browser tab for tests: opens a screen with a selection, waits for its content, records errors and requests."""

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
    "timeline": {"x.item": "translation/bahdanau"},
    "learn": {"x.lesson": "masked_softmax"},
}
"""A selection for each screen that shows most of its content."""

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
"""An element that a screen has once it is loaded."""

SETTLED = """() => !document.querySelector('[aria-busy=true], .notice.loading')"""


def address_of(screen, **selection):
    query = urlencode({name: value for name, value in selection.items() if value is not None})
    return f"#/{screen}" + (f"?{query}" if query else "")


class Tab:
    """A page with its errors and requests."""

    def __init__(self, page, server):
        self.page, self.server = page, server
        self.errors, self.requests = [], []
        page.on("console", self.record_message)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def record_message(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def open(self, screen, wait=True, **selection):
        """Load the page again with a selection."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.server.origin}/?token={self.server.token}{address_of(screen, **selection)}")
        return self.wait(screen) if wait else self.page

    def wait(self, screen):
        self.page.wait_for_selector(READY[screen], state="attached")
        self.page.wait_for_function(SETTLED)
        return self.page

    def foreign_requests(self):
        """Requests to other origins."""
        local = ("data:", "blob:", "about:")
        own = urlsplit(self.server.origin).netloc
        return [url for url in self.requests if not url.startswith(local) and urlsplit(url).netloc != own]

    def part(self, name):
        """One part of the selection in the URL."""
        script = """name => new URLSearchParams(location.hash.split('?')[1] ?? '').get(name)"""
        return self.page.evaluate(script, name)

    def wait_for_part(self, name, value):
        script = """([name, value]) =>
            new URLSearchParams(location.hash.split('?')[1] ?? '').get(name) === value"""
        self.page.wait_for_function(script, arg=[name, None if value is None else str(value)])

    def screenshot(self, name):
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
