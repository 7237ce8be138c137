"""Chromium on a running studio with quickly trained models; the tests are skipped where a part is missing."""

import os
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from rich.console import Console

from regard._utils import override, write_text
from regard.checkpoint import RunFolder
from regard.recipes import make_run
from regard.tasks import fit, write_report
from tests.shared_folders import make_once
from tests.studio.browser.server import StudioProcess
from tests.studio.browser.tab import LANGUAGES, Tab

STEPS = {"seq2seq": 60, "bahdanau": 150, "transformer": 200}
SMALL = ("batch.tokens=1024", "data.content.max_dates=1", "data.held_out=60", "validation.sentences=0")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-quic",
)  # fmt: skip
AXE = Path(__file__).parents[3] / "web" / "node_modules" / "axe-core" / "axe.min.js"
FINDINGS = """async () => (await axe.run()).violations.flatMap((found) =>
  found.nodes.slice(0, 3).map((node) => `${found.id}: ${node.target} ${node.failureSummary.split('\\n')[1] ?? ''}`))"""
PAGE = Path(str(files("regard.studio").joinpath("static"))) / "index.html"


def train(root):
    """Briefly trained models, each with an evaluation."""
    threads = torch.get_num_threads()
    # on a busy machine, two threads lose more to synchronisation than they gain
    torch.set_num_threads(1)
    try:
        for name, steps in STEPS.items():
            run = override(make_run("dates", name, steps=steps), *SMALL, f"training.every.validate={steps}")
            fitted = fit(run, root / name, console=Console(quiet=True))
            pairs = run.data.read("test")[:50]
            report = fitted.system.evaluate(pairs, split="test", beam=1)
            write_text(RunFolder(root / name).evaluation("test"), write_report(report))
    finally:
        torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
    if chromium is None:
        pytest.skip("there is no Chromium")
    if not PAGE.is_file():
        pytest.skip("the page is not built: run `make page`")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def demo(browser, tmp_path_factory):
    """A folder of date models: REGARD_STUDIO_DEMO names a finished one."""
    folder = os.environ.get("REGARD_STUDIO_DEMO")
    if folder:
        return Path(folder)
    return make_once(tmp_path_factory, "demo", train)


@pytest.fixture(scope="session")
def server(demo, tmp_path_factory):
    process = StudioProcess(tmp_path_factory.mktemp("home"), demo)
    yield process
    process.kill()


@pytest.fixture
def new_tab(browser, server):
    """Open a tab in a new browser context."""
    contexts = []

    def open_tab(language="en", width=1440, height=900, server=server, **more):
        context = browser.new_context(
            locale=LANGUAGES[language], viewport={"width": width, "height": height}, accept_downloads=True, **more
        )
        contexts.append(context)
        context.set_default_timeout(20_000)
        return Tab(context.new_page(), server)

    yield open_tab
    for context in contexts:
        context.close()


@pytest.fixture
def violations():
    """The accessibility violations that axe reports."""
    if not AXE.is_file():
        pytest.skip("axe is not installed: run `make page`")

    def run_axe(page):
        page.add_script_tag(path=AXE)
        return page.evaluate(FINDINGS)

    return run_axe
