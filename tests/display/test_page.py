"""The page: self-contained, with escaped tokens and exact digits."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import torch

from regard import show
from regard.display.html import Page
from regard.display.picture import Picture
from regard.display.show import choose_panels

EVIL = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&amp;", "我\u2028"]


def page_of(weights, tokens=None):
    panels = choose_panels(weights, None, batch_index=0, heads="each", query_tokens=tokens, key_tokens=tokens)
    return Page(Picture.of(panels))


class Reader(HTMLParser):
    """The tags of a page, and the text of its data."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data, self.inside = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = dict(attributes).get("id") == "data"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        self.data += data if self.inside else ""


def decoded(panel):
    return np.frombuffer(base64.b64decode(panel["weights"]), dtype="<f4")


def test_the_page_needs_no_network_and_no_other_file():
    text = page_of(torch.rand(1, 2, 3, 3)).html()
    assert "//" not in text.replace("</", "")
    assert all("src" not in attributes and "href" not in attributes for _, attributes in Reader(text).tags)
    assert "import " not in text
    assert "fetch(" not in text


def test_tokens_are_escaped_and_decoded_unchanged():
    text = page_of(torch.eye(4), EVIL).html()
    reader = Reader(text)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert not any(tag == "img" for tag, _ in reader.tags)
    payload = json.loads(reader.data)
    assert payload["labels"] == [[*EVIL[:3], "我\\u2028"]]
    assert "\u2028" not in text


def test_the_page_contains_the_given_weights():
    weights = torch.rand(1, 3, 7, 11).softmax(dim=-1)
    payload = json.loads(Reader(page_of(weights).html()).data)
    assert [panel["head"] for panel in payload["panels"]] == ["head 0", "head 1", "head 2"]
    for panel, expected in zip(payload["panels"], weights[0], strict=True):
        np.testing.assert_array_equal(decoded(panel), expected.flatten())
        assert [len(payload["labels"][panel[side]]) for side in ("queries", "keys")] == [7, 11]


def test_masked_and_negative_scores_are_preserved():
    payload = json.loads(Reader(page_of(torch.tensor([[-2.0, float("-inf"), 3.0]])).html()).data)
    np.testing.assert_array_equal(decoded(payload["panels"][0]), [-2.0, np.nan, 3.0])


def test_weights_take_four_bytes_and_shared_tokens_are_stored_once():
    tokens = [f"token{number}" for number in range(100)]
    text = page_of(torch.rand(1, 8, 100, 100), tokens).html()
    assert len(text) < 8 * 100 * 100 * 5.4 + 20_000
    assert text.count("token99") == 1


def test_a_notebook_gets_an_iframe_with_the_page():
    page = page_of(torch.eye(4), EVIL)
    reader = Reader(page._repr_html_())
    ((tag, attributes),) = reader.tags
    assert tag == "iframe"
    assert attributes["srcdoc"] == page.html()
    assert attributes["sandbox"] == "allow-scripts"


def test_the_title_is_the_escaped_path(tmp_path):
    panels = page_of(torch.eye(2)).picture.panels
    changed = type(panels[0])(**(vars(panels[0]) | {"path": "a<b"}))
    assert "<title>a&lt;b</title>" in Page(Picture.of((changed,))).html()
    show(torch.eye(2), file=tmp_path / "map.HTML")
    assert "<title>attention</title>" in (tmp_path / "map.HTML").read_text(encoding="utf-8")


def test_the_sentence_stands_above_the_map_and_is_escaped(tmp_path):
    show(torch.eye(2), title="1 < 2 → 一 < 二", file=tmp_path / "map.html")
    text = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "<title>1 &lt; 2 → 一 &lt; 二</title>" in text
    assert json.loads(Reader(text).data)["title"] == "1 < 2 → 一 < 二"


def test_the_script_uses_only_existing_elements():
    text = page_of(torch.eye(2)).html()
    ids = set(re.findall(r'element\("(\w+)"\)', text))
    there = {attributes["id"] for _, attributes in Reader(text).tags if "id" in attributes}
    assert ids
    assert ids <= there
