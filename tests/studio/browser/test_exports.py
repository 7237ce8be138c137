"""Saved files hold the weights: pictures at twice their size, tables and traces, and a page that opens from disk."""

import csv
import json
import re
import struct

import numpy as np
import pytest

from tests.studio.browser.tab import CROSS, SELECTIONS, Tab

pytestmark = pytest.mark.browser

AT = {"model": "bahdanau", "text": "3 May 2031", "site": "attention", "head": 0}


@pytest.fixture
def save(new_tab, tmp_path):
    """Choose an entry of the Save menu and return the file."""
    tab: Tab = new_tab()
    page = tab.open("watch", **AT)

    def choose(label, page=page):
        page.get_by_role("button", name="Save").click()
        with page.expect_download() as waiting:
            page.get_by_role("menuitem", name=label, exact=True).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path

    choose.seen = tab
    return choose


@pytest.fixture
def real(server):
    inspection = server.inspect(AT["model"], AT["text"])
    return server.weights(inspection, AT["site"], AT["head"])


def size_of(png):
    data = png.read_bytes()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


@pytest.mark.parametrize(
    ("label", "selector"), [("PNG, heat map (2×)", "main .stage > canvas"), ("PNG, ribbons (2×)", "main .ribbons svg")]
)
def test_png_at_twice_the_size(save, label, selector):
    box = save.seen.page.locator(selector).bounding_box()
    width, height = size_of(save(label))
    assert width == pytest.approx(2 * box["width"], abs=2) and height == pytest.approx(2 * box["height"], abs=2)


def test_svg_is_self_contained(save, real):
    text = save("SVG, heat map").read_text()
    assert text.startswith("<svg") and "href" not in text
    # marks such as <eos> are hidden; each other pair is a cell, the brightest the largest weight
    cells = re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="18" height="18" fill="rgb\((\d+),(\d+),(\d+)\)"', text)
    tab = real[:-1, :-1]
    assert len(cells) == tab.size
    assert int(np.argmax([int(green) for _, green, _ in cells])) == tab.argmax()
    ribbons = save("SVG, ribbons").read_text()
    assert "<path" in ribbons and "class=" not in ribbons


def test_csv_and_json_have_the_weights(save, real):
    with save("CSV, weights").open(encoding="utf-8-sig", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert len(header) == real.shape[1] + 1
    np.testing.assert_allclose(np.array([row[1:] for row in rows], dtype=float), real, atol=1e-7)
    trace = json.loads(save("JSON, trace").read_text())
    np.testing.assert_allclose(trace["weights"], real, atol=1e-7)
    assert trace["inspection"]["input"] == AT["text"] and trace["site"] == AT["site"]


def test_the_html_opens_from_disk_with_the_same_weights(save, new_tab, real, tmp_path):
    path = save("HTML, one file")
    tab = new_tab(offline=True)
    tab.page.goto(path.as_uri())
    panels = tab.page.evaluate("all.map((panel) => [...panel.weights])")
    np.testing.assert_array_equal(np.array(panels[0]).reshape(real.shape), real)
    assert tab.page.locator("#sentence").inner_text().startswith(f"{AT['text']} → ")
    tab.page.locator("#map").focus()
    for key in range(real.shape[1]):
        tab.page.keyboard.press("ArrowRight")
        shown = tab.page.locator("#readout b").inner_text()
        assert float(shown) == pytest.approx(real[0, key], abs=0.5e-4 + 1e-9)
    tab.screenshot("export-html")
    assert tab.requests == [path.as_uri()] and tab.errors == []


def test_the_html_of_all_heads(new_tab, server):
    inspection = server.inspect(CROSS["model"], CROSS["text"])
    text = (
        server.request(f"/api/inspections/{inspection['id']}/page", site=CROSS["site"], head=-1, lang="zh")
        .read()
        .decode()
    )
    tab = new_tab("zh")
    tab.page.set_content(text)
    panels = tab.page.evaluate("all.map((panel) => [...panel.weights])")
    for head, panel in enumerate(panels):
        real = server.weights(inspection, CROSS["site"], head)
        np.testing.assert_array_equal(np.array(panel).reshape(real.shape), real)


@pytest.mark.parametrize("screen", ["swap", "heads", "runs", "timeline", "learn"])
def test_every_file_of_the_other_screens(new_tab, tmp_path, screen):
    tab = new_tab()
    page = tab.open(screen, **SELECTIONS[screen])
    for menu in page.get_by_role("button", name="Save").all():
        menu.click()
        labels = page.get_by_role("menuitem").all_inner_texts()
        page.keyboard.press("Escape")
        assert labels
        for label in labels:
            menu.click()
            with page.expect_download() as waiting:
                page.get_by_role("menuitem", name=label, exact=True).click()
            path = tmp_path / waiting.value.suggested_filename
            waiting.value.save_as(path)
            assert path.stat().st_size > 20, label
            if path.suffix == ".json":
                json.loads(path.read_text())
    assert tab.errors == []
