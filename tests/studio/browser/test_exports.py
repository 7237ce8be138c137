"""Saved files hold the weights: pictures at twice their size, tables and traces, and a page that opens from disk."""

import csv
import json
import re
import struct

import numpy as np
import pytest

from tests.studio.browser.seeing import CROSS, SELECTIONS, Seen

pytestmark = pytest.mark.browser

AT = {"model": "bahdanau", "text": "3 May 2031", "site": "attention", "head": 0}


@pytest.fixture
def saved(see, tmp_path):
    """Choose from the Save menu, and have the file."""
    seen: Seen = see()
    page = seen.open("watch", **AT)

    def choose(label, page=page):
        page.get_by_role("button", name="Save").click()
        with page.expect_download() as waiting:
            page.get_by_role("menuitem", name=label, exact=True).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path

    choose.seen = seen
    return choose


@pytest.fixture
def real(serving):
    look = serving.look(AT["model"], AT["text"])
    return serving.weights(look, AT["site"], AT["head"])


def size_of(png):
    data = png.read_bytes()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


@pytest.mark.parametrize(
    ("label", "selector"), [("PNG, heat map (2×)", "main .stage > canvas"), ("PNG, ribbons (2×)", "main .ribbons svg")]
)
def test_png_at_twice_the_size(saved, label, selector):
    box = saved.seen.page.locator(selector).bounding_box()
    width, height = size_of(saved(label))
    assert width == pytest.approx(2 * box["width"], abs=2) and height == pytest.approx(2 * box["height"], abs=2)


def test_svg_stands_alone(saved, real):
    text = saved("SVG, heat map").read_text()
    assert text.startswith("<svg") and "href" not in text
    # marks such as <eos> are hidden; each other pair is a cell, the brightest the largest weight
    cells = re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="18" height="18" fill="rgb\((\d+),(\d+),(\d+)\)"', text)
    seen = real[:-1, :-1]
    assert len(cells) == seen.size
    assert int(np.argmax([int(green) for _, green, _ in cells])) == seen.argmax()
    ribbons = saved("SVG, ribbons").read_text()
    assert "<path" in ribbons and "class=" not in ribbons


def test_csv_and_json_hold_the_weights(saved, real):
    with saved("CSV, weights").open(encoding="utf-8-sig", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert len(header) == real.shape[1] + 1
    np.testing.assert_allclose(np.array([row[1:] for row in rows], dtype=float), real, atol=1e-7)
    trace = json.loads(saved("JSON, trace").read_text())
    np.testing.assert_allclose(trace["weights"], real, atol=1e-7)
    assert trace["look"]["text"] == AT["text"] and trace["site"] == AT["site"]


def test_the_html_opens_from_disk_with_the_same_weights(saved, see, real, tmp_path):
    path = saved("HTML, one file")
    seen = see(offline=True)
    seen.page.goto(path.as_uri())
    panels = seen.page.evaluate("all.map((panel) => [...panel.weights])")
    np.testing.assert_allclose(np.array(panels[0]).reshape(real.shape), real, atol=1e-4)
    seen.page.locator("#map").focus()
    seen.page.keyboard.press("ArrowRight")
    said = float(re.search(r"0\.\d{4}|1\.0000", seen.page.locator("#read").inner_text())[0])
    assert np.abs(real - said).min() < 1e-4
    seen.shoot("export-html")
    assert seen.requests == [path.as_uri()] and seen.errors == []


def test_the_html_of_all_heads(see, serving):
    look = serving.look(CROSS["model"], CROSS["text"])
    text = serving.ask(f"/api/inspections/{look['id']}/page", site=CROSS["site"], head=-1, lang="zh").read().decode()
    seen = see("zh")
    seen.page.set_content(text)
    panels = seen.page.evaluate("all.map((panel) => [...panel.weights])")
    for head, panel in enumerate(panels):
        real = serving.weights(look, CROSS["site"], head)
        np.testing.assert_allclose(np.array(panel).reshape(real.shape), real, atol=1e-4)


@pytest.mark.parametrize("screen", ["swap", "heads", "runs", "timeline", "learn"])
def test_every_file_of_the_other_screens(see, tmp_path, screen):
    seen = see()
    page = seen.open(screen, **SELECTIONS[screen])
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
    assert seen.errors == []
