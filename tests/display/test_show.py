"""`regard.show`: inputs, outputs and errors."""

import re
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import regard
from regard import Attention, MultiHeadAttention, show, trace
from regard.attention import GrowingCache
from regard.display.html import Page
from regard.display.show import choose_panels


def panels_of(maps, path=None, **changes):
    options = {"batch_index": 0, "heads": "each", "query_tokens": None, "key_tokens": None} | changes
    return choose_panels(maps, path, **options)


@pytest.fixture
def maps():
    model = nn.ModuleDict({"reader": MultiHeadAttention(8, 2), "writer": Attention()})
    states = torch.randn(3, 4, 8)
    with trace(model) as recorded:
        model["reader"](states)
        model["writer"](states[:, :2], model["writer"].prepare_memory(states))
    return recorded


@pytest.mark.parametrize(
    ("shape", "batch_index", "expected"),
    [
        ((3, 5), 0, lambda weights: weights[None]),
        ((2, 3, 5), 1, lambda weights: weights[1:2]),
        ((2, 4, 3, 5), -1, lambda weights: weights[1]),
        ((2, 2, 4, 3, 5), 3, lambda weights: weights[1, 1]),
    ],
)
def test_any_leading_dimensions_give_the_heads_of_one_batch_element(shape, batch_index, expected):
    weights = torch.rand(shape)
    panels = panels_of(weights, batch_index=batch_index)
    assert torch.equal(torch.stack([panel.weights for panel in panels]), expected(weights))


def test_weights_may_be_half_precision_and_have_a_gradient():
    weights = torch.rand(2, 2, dtype=torch.bfloat16, requires_grad=True)
    assert panels_of(weights)[0].weights.dtype == torch.float32


def test_a_path_selects_itself_or_all_below_it(maps):
    assert [panel.title for panel in panels_of(maps, "reader")] == ["reader head 0", "reader head 1"]
    assert [panel.title for panel in panels_of(maps)] == ["reader head 0", "reader head 1", "writer"]
    assert torch.equal(panels_of(maps, "writer", batch_index=2)[0].weights, maps["writer"][0].weights[2])
    outer = nn.ModuleDict({"outer": nn.ModuleDict({"inner": MultiHeadAttention(8, 2)})})
    with trace(outer) as recorded:
        outer["outer"]["inner"](torch.randn(1, 2, 8))
    assert [panel.path for panel in panels_of(recorded, "outer")] == ["outer.inner"] * 2


def test_a_single_map_can_be_shown(maps):
    assert torch.equal(panels_of(maps["writer"][0])[0].weights, panels_of(maps, "writer")[0].weights)


def test_heads_are_chosen_and_averaged(maps):
    weights = maps["reader"][0].weights[0]
    assert torch.equal(panels_of(maps, "reader", heads=[1])[0].weights, weights[1])
    (mean,) = panels_of(maps, "reader", heads="mean")
    assert mean.head == "mean of 2 heads"
    torch.testing.assert_close(mean.weights, weights.mean(dim=0))


def test_a_decoders_steps_are_joined_along_the_queries():
    model = MultiHeadAttention(8, 2)
    states, cache = torch.randn(1, 4, 8), GrowingCache()
    with trace(model) as recorded:
        for step in range(4):
            cache = model(states[:, step : step + 1], cache=cache).cache
    assert len(recorded[""]) == 4
    whole = model(states, mask=regard.attention.masks.causal(), return_weights=True).weights
    stepped = torch.stack([panel.weights for panel in panels_of(recorded)])
    torch.testing.assert_close(stepped, whole[0])


def test_tokens_label_both_sides_or_each(maps):
    panel = panels_of(maps, "writer", query_tokens=["a", " "], key_tokens=["b", "c", "\x1b[31m", "我"])[0]
    assert panel.query_tokens == ("a", "␣")
    assert panel.key_tokens == ("b", "c", "\\x1b[31m", "我")
    assert panels_of(maps, "reader")[0].key_tokens == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tokens": ["a", "b"]}, "2 tokens for 4 queries at 'reader'. Give one token each"),
        ({"path": "reeder"}, "no attention was traced at 'reeder'; the nearest of 2 is 'reader'."),
        ({"batch_index": 3}, "batch_index is 3, but weights of shape (3, 2, 4, 4) have 3 batch elements."),
        ({"path": "reader", "heads": [2]}, "heads has 2, but there are 2 heads"),
        ({"path": "reader", "heads": []}, "heads is empty"),
        ({"path": "reader", "heads": "best"}, "heads is 'best', expected 'each', 'mean' or numbers"),
        ({"file": "map.jpeg"}, "file is 'map.jpeg' and ends in .jpeg, expected .png, .svg, .pdf or .html."),
        ({"file": "map"}, "ends in nothing"),
    ],
)
def test_errors_have_the_value_and_a_solution(maps, arguments, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        show(maps, **arguments)


def test_an_empty_trace_raises_an_error_with_a_solution():
    with trace(MultiHeadAttention(8, 2)) as recorded:
        pass
    with pytest.raises(ValueError, match=re.escape("Call the model inside `with trace(model) as maps:`")):
        show(recorded)


def test_maps_that_are_not_steps_raise_an_error():
    model = MultiHeadAttention(8, 2)
    with trace(model) as recorded:
        model(torch.randn(1, 3, 8))
        model(torch.randn(1, 2, 8))
    with pytest.raises(ValueError, match=re.escape("there are 2 maps at '' (shapes (1, 2, 3, 3), (1, 2, 2, 2))")):
        show(recorded)
    assert panels_of(recorded[""][1])[0].weights.shape == (2, 2)


@pytest.mark.parametrize("weights", [torch.rand(3), torch.rand(2, 0)])
def test_invalid_weights_are_refused(weights):
    with pytest.raises(ValueError, match=r"expected \(\.\., Q, K\)"):
        show(weights)


def test_paths_need_a_trace_and_other_objects_are_refused():
    with pytest.raises(ValueError, match="only a trace has paths"):
        show(torch.rand(2, 2), "layer")
    with pytest.raises(ValueError, match="maps is list, expected a trace"):
        show([])


def test_show_prints_in_a_terminal_and_returns_html_in_a_notebook(maps, capsys, monkeypatch):
    assert show(maps, "writer") is None
    assert "writer" in capsys.readouterr().out
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    assert isinstance(show(maps, "writer"), Page)
    assert capsys.readouterr().out == ""
    terminal = SimpleNamespace(get_ipython=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert show(maps, "writer") is None


@pytest.mark.parametrize("suffix", [".html", ".png"])
def test_a_file_is_overwritten_only_on_request(tmp_path, suffix):
    file = tmp_path / "deep" / f"map{suffix}"
    show(torch.eye(2), file=file)
    first = file.read_bytes()
    with pytest.raises(ValueError, match=r"map.* exists\. Choose another name"):
        show(torch.ones(3, 3), file=str(file))
    assert file.read_bytes() == first
    show(torch.ones(3, 3), file=file, overwrite=True)
    assert file.read_bytes() != first
    assert [path.name for path in file.parent.iterdir()] == [file.name]
