"""Figures: a panel a head, real text in SVG, one warning where no font has the characters."""

import warnings
from xml.etree import ElementTree

import pytest
import torch

from regard import show
from regard.display import figure
from regard.display.picture import Picture
from regard.display.show import choose_panels


def picture_of(weights, tokens=None):
    return Picture.of(choose_panels(weights, None, batch_index=0, heads="each", query_tokens=tokens, key_tokens=tokens))


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_svg_has_a_panel_for_every_head_and_every_token_as_text():
    svg = figure.figure_bytes(picture_of(torch.rand(1, 5, 2, 2), ["<b>&", "$x$"]), "svg")
    labels = texts(svg)
    assert [f"head {head}" for head in range(5)] == [text for text in labels if text.startswith("head")]
    assert {"<b>&", "$x$", "queries", "keys", "weight"} <= set(labels)


def test_png_is_deterministic():
    first, second = (figure.figure_bytes(picture_of(torch.eye(3)), "png") for _ in range(2))
    assert first.startswith(b"\x89PNG")
    assert first == second
    assert first != figure.figure_bytes(picture_of(torch.ones(3, 3)), "png")


def test_small_maps_show_numbers_and_large_maps_fewer_labels():
    assert "0.25" in texts(figure.figure_bytes(picture_of(torch.full((2, 2), 0.25)), "svg"))
    labels = texts(figure.figure_bytes(picture_of(torch.rand(300, 300)), "svg"))
    numbers = [text for text in labels if text and text.isdigit()]
    assert 20 < len(numbers) < 200


def test_panels_of_different_tokens_are_all_labelled():
    alike = texts(figure.figure_bytes(picture_of(torch.rand(1, 4, 13, 13), [f"t{n}" for n in range(13)]), "svg"))
    assert alike.count("t3") == 4
    panels = [
        panel
        for name, size in (("one", 13), ("two", 14))
        for panel in picture_of(torch.rand(1, 2, size, size), [f"{name}{n}" for n in range(size)]).panels
    ]
    apart = texts(figure.figure_bytes(Picture.of(tuple(panels)), "svg"))
    assert apart.count("one3") == apart.count("two3") == 4


def test_modules_with_equal_numbers_of_heads_are_rows():
    (panel,) = picture_of(torch.eye(2)).panels

    def columns(*paths):
        return figure.count_columns(Picture.of(tuple(type(panel)(**(vars(panel) | {"path": path})) for path in paths)))

    assert columns("a", "a", "a", "b", "b", "b") == 3
    assert columns("a", "a", "b") == 2
    assert columns(*"abcdefghi") == 3
    assert columns("a", "a", "a", "a") == 2


def test_missing_characters_give_one_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(figure, "CJK_FONTS", ())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        show(torch.eye(3), tokens=["我", "看", "你"], file=tmp_path / "map.png")
    assert [str(one.message).split(":")[0] for one in caught] == ["no installed font has '你我看'"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        show(torch.eye(3), tokens=["我", "看", "你"], file=tmp_path / "map.svg")
    assert "看" in texts((tmp_path / "map.svg").read_bytes())


def turned(svg):
    """The texts of an SVG that are rotated."""
    root = ElementTree.fromstring(svg)
    return {
        element.text
        for element in root.iter("{http://www.w3.org/2000/svg}text")
        if "rotate(-90" in element.get("transform", "")
    }


def test_a_long_label_alone_is_turned():
    tokens = ["2", "0", "年", "▁", "<eos>"]
    svg = figure.figure_bytes(picture_of(torch.eye(5), tokens), "svg")
    assert turned(svg) & {"2", "0", "年", "␣", "<eos>"} == {"<eos>"}
    # a lone space would be a bar, and the space of tokenizers a line
    assert texts(svg).count("␣") == 2 and "▁" not in texts(svg)


def test_an_alignment_of_a_date_has_its_sentence_and_its_numbers(tmp_path):
    weights = torch.full((14, 20), 0.125)
    show(weights, title="May 3, 2031 → 2031年5月3日", file=tmp_path / "map.svg")
    labels = texts((tmp_path / "map.svg").read_bytes())
    assert "May 3, 2031 → 2031年5月3日" in labels
    # rounded as in the studio's page: halves away from zero
    assert labels.count("0.13") == weights.numel()


def test_a_font_that_was_installed_after_the_list_of_matplotlib_is_used(tmp_path, monkeypatch):
    from matplotlib import font_manager

    manager, files = font_manager.fontManager, cjk_files()
    if not files:
        pytest.skip("no font with Chinese letters is installed")
    monkeypatch.setattr(manager, "ttflist", [font for font in manager.ttflist if font.fname not in files])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        show(torch.eye(3), tokens=["我", "看", "你"], file=tmp_path / "map.png")
    assert any(font.name in figure.CJK_FONTS for font in manager.ttflist)


def cjk_files():
    from matplotlib import font_manager

    return [file for file in font_manager.findSystemFonts() if "NotoSansCJK" in file or "NotoSansSC" in file]


def test_a_font_that_has_the_characters_is_used(monkeypatch):
    from matplotlib import font_manager

    # STIX replaces a CJK font, and the default font has only ASCII letters and the snowman
    monkeypatch.setattr(figure, "CJK_FONTS", ("Not Installed", "STIXGeneral"))
    dejavu = {ord("☃"), *range(32, 127)}
    real = font_manager.get_font

    class Dejavu:
        def get_charmap(self):
            return dejavu

    monkeypatch.setattr(font_manager, "get_font", lambda path: Dejavu() if "DejaVu" in str(path) else real(path))
    assert figure.fonts_for(picture_of(torch.eye(1), ["∮"]), embedded=True) == ["DejaVu Sans", "STIXGeneral"]
    assert figure.fonts_for(picture_of(torch.eye(1), ["a☃"]), embedded=True) == ["DejaVu Sans"]


def test_without_matplotlib_the_error_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        show(torch.eye(2), file=tmp_path / "map.png")
    show(torch.eye(2), file=tmp_path / "map.html")
    assert (tmp_path / "map.html").exists()
