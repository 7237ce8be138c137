"""Write the README's pictures of the studio, docs/pictures/*.png: a screen each, with few colours for small files.

    regard demo --out demo
    python docs/scripts/pictures.py demo

Needs Chromium, Playwright and the built page (`make page`).
"""

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parents[1] / "pictures"
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/\?token=(\w+)")
SIZE = {"width": 1280, "height": 800}
NUM_COLORS = 96
"""Text and flat areas need no more; a full-colour file is four times as large."""
TEXT = "Tuesday, 5 March 2024"
SCREENS = {
    "studio-watch": ("watch", {"model": "bahdanau", "text": TEXT, "site": "alignment", "head": 0, "i": 5, "j": 13}),
    "studio-compute": (
        "compute",
        {
            "model": "transformer",
            "text": TEXT,
            "site": "decoder.1.cross_attention",
            "head": 1,
            "i": 5,
            "j": 13,
            "x.stage": "weights",
            "x.quantity": "weight",
        },
    ),
}
"""Name of the picture -> screen and selection."""
SETTLED = "() => !document.querySelector('[aria-busy=true], .notice.loading')"


def take_pictures(folder: Path) -> None:
    """Start a studio on the folder and write every picture."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("There is no Chromium. Install it, or put it on the PATH.")
    command = [sys.executable, "-m", "regard", "studio", str(folder), "--no-browser"]
    with tempfile.TemporaryDirectory() as home:
        studio = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"XDG_DATA_HOME": home, "PATH": ""})
        try:
            assert studio.stdout is not None
            address = next(filter(None, map(ADDRESS.search, studio.stdout)), None)
            if address is None:
                sys.exit(f"The studio printed no address. Is {folder} a folder of `regard demo`?")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport=SIZE, device_scale_factor=1.5, locale="en-GB")
                for name, (screen, selection) in SCREENS.items():
                    page.goto("about:blank")
                    page.goto(f"{address[1]}/?token={address[2]}#/{screen}?{urlencode(selection)}")
                    page.wait_for_selector("main [role=grid], main td button", state="attached")
                    page.wait_for_function(SETTLED)
                    page.wait_for_timeout(500)
                    write_picture(page.screenshot(), PICTURES / f"{name}.png")
                browser.close()
        finally:
            studio.kill()
            studio.wait()


def write_picture(screenshot: bytes, path: Path) -> None:
    """Reduce the colours and save."""
    path.parent.mkdir(exist_ok=True)
    image = Image.open(io.BytesIO(screenshot)).convert("RGB")
    image.quantize(NUM_COLORS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
