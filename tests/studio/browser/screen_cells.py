"""Numbers as the screens print them, beside the exact numbers that they stand for."""

import json
import math
import random
import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.studio.browser.tab import Tab

MODELS = ("bahdanau", "transformer")
EXAMPLES = ("example:journey", "example:apple", "example:cues", "example:kernel_fit")
ALIGNS = ("sparsemax", "sigmoid", "hard", "entmax", "softmax")
LESSONS = ("cues", "apple", "article", "masked_softmax", "journey", "bahdanau", "square_root")
MONTHS = ("January", "Feb", "March", "Apr", "May", "June", "Jul", "August", "Sept", "October", "Nov", "December")
STORE_RAW = """raw => localStorage.setItem('regard.raw', raw ? 'yes' : 'no')"""
RECORD_TEXTS = """() => {
  const texts = new WeakMap();
  const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
  Object.assign(CanvasRenderingContext2D.prototype, {
    clearRect(...box) { texts.set(this.canvas, []); clearRect.apply(this, box); },
    fillText(text, ...rest) {
      // labels are larger than numbers
      if (this.font.startsWith('11px')) texts.get(this.canvas)?.push(text);
      fillText.call(this, text, ...rest);
    },
  });
  window.textsOf = (canvas) => texts.get(canvas) ?? [];
}"""
READ_MAPS = """() => [...document.querySelectorAll('main .stage')]
  .filter((stage) => stage.querySelector('canvas') && stage.querySelector('[role=grid]'))
  .map((stage) => ({
    drawn: window.textsOf(stage.querySelector('canvas')),
    grid: [...stage.querySelectorAll('[role=row]')].slice(1)
      .map((row) => [...row.querySelectorAll('[role=gridcell]')].map((cell) => cell.textContent.trim())),
  }))"""
READ_NOTES = """() => [...document.querySelectorAll('main g.key')]
  .map((key) => key.querySelector('.note')?.textContent.trim() ?? null)"""


@dataclass(frozen=True)
class Cell:
    """A number on the page: where it is, its text, and the exact number."""

    where: str
    text: str
    exact: float

    @property
    def is_exact(self) -> bool:
        """True if the text is the exact number rounded to the digits that it has."""
        # the reference is in single precision
        slack = 1e-7 + 1e-6 * abs(self.exact)
        text = self.text.replace(",", "").replace("+", "").replace("−", "-")
        if match := re.fullmatch(r"([<>]) (-?[\d.]+) %", text):
            return self.exact != 0 and abs(self.exact) < abs(float(match[2])) / 100
        match = re.fullmatch(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?( %)?", text)
        if match is None:
            return text == {math.inf: "∞", -math.inf: "-∞"}.get(self.exact)
        scale = 10.0 ** int(match[4] or 0) / (100 if match[5] else 1)
        value = float(f"{match[1]}{match[2]}.{match[3] or 0}") * scale
        return abs(value - self.exact) <= 0.5 * 10.0 ** -len(match[3] or "") * scale + slack


def entropy_of(weights):
    """The entropy in nats of the weights of one query, divided by their sum."""
    return torch.special.entr(weights / weights.sum().clamp_min(1e-30)).sum().item()


def merged(weights, inspection, site, *, raw):
    """The weights by label: the sum over the keys of a label, the mean over its queries."""
    if raw:
        return weights.astype(float)
    axes = {axis["name"]: axis["labels"] for axis in inspection["axes"]}
    rows, columns = ([label for label in axes[site[side]] if not label["mark"]] for side in ("queries", "keys"))
    span = lambda label: slice(label["first"], label["last"] + 1)  # noqa: E731
    values = weights.astype(float)
    lines = [[values[span(row), span(column)].sum(-1).mean() for column in columns] for row in rows]
    return np.array(lines).reshape(len(rows), len(columns))


class Screens:
    """Opens random views of a studio and reads their numbers."""

    def __init__(self, tab: Tab, seed: int):
        self.tab, self.server, self.chance = tab, tab.server, random.Random(seed)
        tab.page.add_init_script(f"({RECORD_TEXTS})()")
        # a page of the studio's origin, which has the stored options
        tab.open("learn")

    def text(self):
        day, month = self.chance.randint(1, 28), self.chance.choice(MONTHS)
        return self.chance.choice((f"{day} {month} {1900 + 7 * day}", f"{month} {day}, 20{day:02}", f"{month} {day}"))

    def pick(self, *, has_scores=False, examples=True):
        """A model, its inspection, and one of its attentions with a head."""
        model = self.chance.choice((*MODELS, *MODELS, self.chance.choice(EXAMPLES)) if examples else MODELS)
        inspection = self.server.inspect(model, self.text())
        site = self.chance.choice([site for site in inspection["sites"] if site["has_scores"] or not has_scores])
        head = self.chance.randrange(site["heads"])
        raw = self.chance.random() < 0.5
        self.tab.page.evaluate(STORE_RAW, raw)
        link = {"model": model, "text": inspection["input"], "site": site["path"], "head": head}
        return inspection, site, head, raw, link

    def maps(self, where, *tables):
        """The cells of the heat maps on the page and of the tables for screen readers."""
        cells = []
        maps = self.tab.page.evaluate(READ_MAPS)
        assert len(maps) == len(tables), where
        for index, (read, exact) in enumerate(zip(maps, tables, strict=True)):
            grid = np.array(read["grid"], dtype=object)
            assert grid.shape == tuple(min(size, 28) for size in exact.shape), where
            shown = exact[: grid.shape[0], : grid.shape[1]]
            cells += [Cell(f"{where} table {index}", *pair) for pair in zip(grid.flat, shown.flat, strict=True)]
            # a canvas has numbers where they fit; 0.00 is left blank
            if read["drawn"]:
                printed = [value for value in exact.flat if abs(value) >= 0.005]
                assert len(read["drawn"]) == len(printed), f"{where} map {index} has another number of digits"
                cells += [Cell(f"{where} map {index}", *pair) for pair in zip(read["drawn"], printed, strict=True)]
        return cells

    def watch(self):
        """A heat map, the pinned pair, and the ribbons of its query."""
        inspection, site, head, raw, link = self.pick()
        weights = self.server.weights(inspection, site["path"], head)
        exact = merged(weights, inspection, site, raw=raw)
        if not exact.size:
            return []
        i, j = self.chance.randrange(exact.shape[0]), self.chance.randrange(exact.shape[1])
        # every token of these systems is a label, so labels and tokens have the same indices
        page = self.tab.open("watch", **link, i=i, j=j)
        page.wait_for_selector("main [data-exact]")
        sentence = page.locator("main .readout .sentence").inner_text()
        cells = [
            *self.maps("watch", exact),
            Cell("watch sentence", re.search(r"[<>]? ?[\d.]+ %", sentence)[0].strip(), exact[i, j]),
            Cell("watch exact", page.locator("[data-exact]").inner_text(), exact[i, j]),
        ]
        notes = page.evaluate(READ_NOTES)
        cells += [
            # a note below a token is a percentage without its sign
            Cell("ribbon", note if note.endswith("%") else f"{note} %", value)
            for note, value in zip(notes, exact[i] if notes else (), strict=True)
            if note is not None
        ]
        return cells

    def compute(self):
        """The column of weights of one query."""
        inspection, site, head, _, link = self.pick(has_scores=True)
        weights = self.server.weights(inspection, site["path"], head)
        i = self.chance.randrange(weights.shape[0])
        page = self.tab.open("compute", **link, i=i, **{"x.stage": "weights"})
        texts = page.evaluate(
            """() => [...document.querySelectorAll('main td button')].map((one) => one.getAttribute('aria-label'))"""
        )
        listed = dict(text.split(", ", 1)[::-1] for text in texts)
        # the page has up to 32 keys
        return [
            Cell("compute", listed[f"weight[{i},{j}]"], value)
            for j, value in enumerate(weights[i])
            if f"weight[{i},{j}]" in listed
        ]

    def swap(self):
        """The maps before and after, their difference, and the entropies and sums of the rows."""
        inspection, site, head, raw, link = self.pick(has_scores=True)
        align = self.chance.choice(ALIGNS)
        where = f"/api/inspections/{inspection['id']}/swap"
        request = {"site": site["path"], "head": head, "align": align}
        swapped = json.load(self.server.request(where, request))
        pair = [self.server.weights(one, site["path"], head) for one in (inspection, swapped)]
        page = self.tab.open("swap", **link, **{"x.align": align})
        page.wait_for_selector("#swap-entropy")
        before, after = (merged(one, inspection, site, raw=raw) for one in pair)
        if not before.size:
            return []
        cells = self.maps(f"swap {align}", before, after, after - before)
        rows = page.locator("section[aria-labelledby=swap-entropy] tbody tr").all()
        for position, row in enumerate(rows):
            numbers = row.locator(".number").all_inner_texts()
            queries = [torch.from_numpy(one[position].copy()).double() for one in pair]
            sums = [query.sum().item() for query in queries]
            columns = [entropy_of(query) for query in queries]
            # sums are printed where a query's weights do not sum to 1
            if len(numbers) == 2:
                assert sums == pytest.approx([1, 1], abs=1e-4)
            else:
                columns += sums
            cells += [Cell(f"swap {align} row", *cell) for cell in zip(numbers, columns, strict=True)]
        return cells

    def compare(self):
        """The alignment of two systems side by side."""
        text = self.text()
        self.tab.page.evaluate(STORE_RAW, False)
        cards = [card for card in self.server.get("/api/state")["models"] if card["name"] in MODELS]
        inspections = [self.server.inspect(card["name"], text) for card in cards]
        tables = []
        for inspection in inspections:
            site = next(site for site in inspection["sites"] if not site["has_scores"])
            weights = self.server.weights(inspection, site["path"], 0)
            tables.append(merged(weights, inspection, site, raw=False))
        # without a choice the first three models are compared; the one without attention has no map
        self.tab.open("compare", text=text)
        self.tab.page.wait_for_function("() => document.querySelectorAll('main section.system .stage').length === 2")
        return self.maps("compare", *tables)

    def heads(self):
        """One head with its measures."""
        inspection, site, head, raw, link = self.pick(has_scores=True, examples=False)
        weights = self.server.weights(inspection, site["path"], head)
        page = self.tab.open("heads", **link)
        page.wait_for_selector("section[aria-labelledby=head-title] .stage")
        self.tab.wait("heads")
        measured = torch.from_numpy(weights.copy()).double()
        entropy, *_, peak = page.locator("section[aria-labelledby=head-title] table.figures td").all_inner_texts()
        exact = merged(weights, inspection, site, raw=raw)
        return [
            *(self.maps("heads", exact) if exact.size else []),
            Cell("heads entropy", entropy, torch.special.entr(measured).sum(-1).mean().item()),
            Cell("heads peak", peak, measured.amax(-1).mean().item()),
        ]

    def learn(self):
        """The tables of a lesson."""
        name = self.chance.choice(LESSONS)
        blocks = self.server.get(f"/api/lessons/{name}")["blocks"]
        tables = [block["values"] for block in blocks if block["kind"] == "matrix"]
        page = self.tab.open("learn", **{"x.lesson": name})
        # later blocks appear when the question before them is answered; the last block is a paragraph
        check = page.get_by_role("button", name="Check my answer")
        check.first.wait_for()
        while check.count():
            page.locator("main fieldset:enabled input[type=radio]").first.check()
            check.click()
        read = page.evaluate(
            """() => [...document.querySelectorAll('main figure > .scroll > table')].map((table) =>
                [...table.querySelectorAll('tbody tr')].map((row) =>
                  [...row.querySelectorAll('td')].map((cell) => cell.textContent.trim())))"""
        )
        return [
            Cell(f"learn {name}", text, value)
            for table, values in zip(read, tables, strict=True)
            for texts, line in zip(table, values, strict=True)
            for text, value in zip(texts, line, strict=True)
            if value is not None
        ]
