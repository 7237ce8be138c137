"""Heat maps as text: readable with and without colour, at any width."""

import io

import pytest
import torch
from rich.console import Console

from regard.display.picture import Picture, colour
from regard.display.show import choose_panels
from regard.display.terminal import TerminalPicture, shortened


def printed(weights, *, width=80, colours=False, query_tokens=None, key_tokens=None):
    panels = choose_panels(weights, None, batch_index=0, heads="each", query_tokens=query_tokens, key_tokens=key_tokens)
    system = "truecolor" if colours else None
    console = Console(file=io.StringIO(), width=width, force_terminal=colours, color_system=system)
    console.print(TerminalPicture(Picture.of(panels)))
    return console.file.getvalue()


def test_small_maps_are_numbers_under_their_tokens():
    text = printed(torch.tensor([[0.25, 0.75], [1.0, 0.0]]), query_tokens=["cat", "猫"], key_tokens=["我", "ab"])
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[:4] == ["           a", "      我   b", "cat  .25 .75", "猫   1.0 .00"]
    assert lines[4].startswith("0.00 ")
    assert "1.00" in lines[4]


def test_large_maps_are_shades_that_increase_with_the_weight():
    text = printed(torch.arange(30.0)[None] / 29)
    row = next(line for line in text.splitlines() if "█" in line)
    shades = row.split("0", 1)[1]
    levels = [" ·░▒▓█".index(letter) for letter in shades.rstrip("\n")[1:61]]
    assert levels == sorted(levels)
    assert set(levels) == set(range(6))


def test_no_line_is_wider_than_the_console_and_no_key_is_lost():
    text = printed(torch.full((3, 70), 0.5), width=50)
    assert max(map(len, text.splitlines())) <= 50
    bands = [line.rstrip() for line in text.splitlines() if line.startswith("1 █")]
    assert len(bands) == 3
    assert sum(band.count("█") for band in bands) == 2 * 70


def test_colours_follow_the_weights():
    text = printed(torch.tensor([[0.0, 1.0]]), colours=True)
    for share in (0.0, 1.0):
        red, green, blue = colour(share)
        assert f"48;2;{red};{green};{blue}" in text


def test_heads_are_printed_in_columns_where_they_fit():
    lines = printed(torch.rand(1, 2, 3, 3)).splitlines()
    assert "head 0" in lines[0]
    assert "head 1" in lines[0]


def test_markup_in_a_token_is_text_and_a_masked_score_is_blank():
    text = printed(torch.tensor([[-float("inf"), 0.5]]), query_tokens=["[red]x[/red]"])
    assert "[red]x[/red]" in text
    assert " .50" in text
    assert "inf" not in text


@pytest.mark.parametrize(("share", "expected"), [(0.0, (68, 1, 84)), (0.5, (33, 145, 140)), (1.0, (253, 231, 37))])
def test_the_colours_are_viridis(share, expected):
    assert colour(share) == expected


def test_long_tokens_are_shortened_by_columns():
    assert shortened("我们在一起", 6) == "我们…"
    assert shortened("short", 6) == "short"
