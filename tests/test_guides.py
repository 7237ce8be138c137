"""The guides' examples run as they stand."""

import re
from pathlib import Path

import pytest

from regard.models import LANGUAGE_MODELS, SENTENCE_MODELS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["language.md", "sentences.md"])
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(block, page, "exec"), names)
    assert capsys.readouterr().out
    assert names["report"].circumstances.split == "test"


@pytest.mark.parametrize(("page", "family"), [("language.md", LANGUAGE_MODELS), ("sentences.md", SENTENCE_MODELS)])
def test_every_system_has_its_line(page, family):
    rows = [line for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    told = {line.split("`")[1]: line for line in rows}
    for name, entry in family.items():
        assert f"| {entry.year} |" in told[name]
