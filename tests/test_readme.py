"""The READMEs' examples run as they stand, and say the same in both languages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def code_of(readme):
    return re.findall(r"```python\n(.*?)```", (ROOT / readme).read_text(), re.S)


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_examples_run(readme, capsys):
    names = {}
    for block in code_of(readme):
        exec(compile(block, readme, "exec"), names)
    assert names["attended"].cache.length == 6
    assert "head 0" in capsys.readouterr().out


def test_both_languages_show_the_same_code():
    english, chinese = (
        [re.sub(r"\s+#.*", "", block) for block in code_of(readme)] for readme in ("README.md", "README.zh.md")
    )
    assert english == chinese


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "CONTRIBUTING.md", "docs/attention.md"])
def test_no_blank_is_left_to_fill(page):
    assert not re.search(r"@[A-Z]+@", (ROOT / page).read_text())
