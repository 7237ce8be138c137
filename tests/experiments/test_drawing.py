"""Figures: claims in Chinese are wrapped between words."""

from regard.experiments.lib.drawing import wrap_chinese


def test_names_are_not_divided_and_marks_do_not_begin_a_line():
    assert wrap_chinese("每个RNN词元的代价，不变。", 4) == ["每个", "RNN词", "元的代价，", "不变。"]
    text = "一二三四五六七八九十" * 3
    assert "".join(wrap_chinese(text, 7)) == text
    assert max(map(len, wrap_chinese(text, 7))) == 7
