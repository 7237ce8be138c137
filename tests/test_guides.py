"""The guides' examples run as they stand."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from regard import testing
from regard._utils import override
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.recipes import make_run
from regard.tasks import fit, load

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["language.md", "sentences.md"])
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(block, page, "exec"), names)
    assert capsys.readouterr().out
    assert names["report"].info.split == "test"


# torch.compile, which the checks call, cannot see through the run-time checks of shapes
@pytest.mark.unchecked
def test_examples_of_the_contract_checks_run():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(encoding="utf-8"), re.S):
        exec(compile(block, "testing.md", "exec"), names)
    assert "the scores of lower are those of forward, but 105 of 105 numbers differ" in names["message"]
    assert names["message"] in (ROOT / "docs" / "testing.md").read_text(encoding="utf-8").replace("\n    ", " ")


def test_the_page_of_the_contract_checks_names_every_check():
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    for name in testing.__all__:
        if name.startswith("check_") or name.endswith("_CHECKS"):
            assert f"`{name}" in text, f"docs/testing.md does not name {name}"


def test_the_recipe_of_the_guide_trains_and_loads(tmp_path):
    text = (ROOT / "docs" / "translation.md").read_text(encoding="utf-8")
    section = text.split("## Your own recipe")[1]
    path = tmp_path / "my_recipe.py"
    path.write_text(re.search(r"```python\n(.*?)```", section, re.S)[1])
    run = override(make_run(f"{path}:digits", steps=3), "validation.sentences=4", "training.every.log=1")
    fit(run, tmp_path / "run", console=Console(quiet=True))
    loaded = load(tmp_path / "run")
    assert loaded.run == override(loaded.run, "training.steps=3") and type(loaded.run.data).__name__ == "Digits"
    splits = [{pair.source for pair in loaded.run.data.read(split)} for split in loaded.run.data.splits]
    assert all(splits) and not splits[0] & splits[1] and not splits[0] & splits[2]
    assert loaded.evaluate(loaded.run.data.read("test"), split="test", beam=1).info.examples == len(splits[2])


@pytest.mark.parametrize(
    ("page", "family"), [("language.md", LANGUAGE_MODELS), ("sentences.md", TEXT_CLASSIFICATION_MODELS)]
)
def test_every_system_has_its_line(page, family):
    rows = [line for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    told = {line.split("`")[1]: line for line in rows}
    for name, entry in family.items():
        assert f"| {entry.year} |" in told[name]
