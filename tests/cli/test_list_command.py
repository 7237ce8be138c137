"""`regard list`: complete at any width, as tables and as JSON."""

import json

import pytest

from regard._utils.names import hyphenated
from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import MASKS
from regard.attention.positions import POSITIONS
from regard.attention.scores import SCORES
from regard.cli import main
from regard.cli.list import families
from regard.experiments import EXPERIMENTS
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes import RECIPES
from regard.tasks import TASKS

TABLES = {"scores": SCORES, "alignments": ALIGNMENTS, "masks": MASKS, "positions": POSITIONS}


def run(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


def squeezed(text):
    return "".join(text.split())


@pytest.mark.parametrize("width", [80, 50, 200])
@pytest.mark.parametrize("family", TABLES)
def test_nothing_is_truncated_at_any_width(family, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run("list", family) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "…" not in out
    # folded cells are read column by column: the last column holds formula, cost and paper
    column = out.splitlines()[2].index("formula")
    output = squeezed("".join(line[column:] for line in out.splitlines()[4:]))
    for name, entry in TABLES[family].items():
        assert name in out
        assert str(entry.year) in out
        assert squeezed(entry.formula) in output
        assert squeezed(entry.cost) in output
        assert entry.paper.split("/abs/")[-1].removeprefix("https://doi.org/") in output


def test_without_a_family_all_are_listed_in_order(capsys):
    assert run("list") == 0
    out = capsys.readouterr().out
    places = [
        out.index(f"\n{family} ") if family != "scores" else out.index(family) for family in map(hyphenated, families())
    ]
    assert places == sorted(places)
    assert "embedding-scale" in out


def test_json_equals_the_tables(capsys):
    assert run("list", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert list(output) == list(families())
    assert list(output["scores"]) == list(SCORES)
    assert output["masks"]["causal"] == {
        "year": 2017,
        "formula": "j <= i",
        "cost": "O(Q K / 2)",
        "paper": "https://arxiv.org/abs/1706.03762",
        "call": "regard.attention.masks.causal()",
    }
    assert output["experiments"]["pooling"]["claim"] == EXPERIMENTS["pooling"].claim.en


def test_systems_and_recipes_are_listed_too(capsys):
    assert run("list", "models") == 0
    out = capsys.readouterr().out
    for name, entry in TRANSLATION_MODELS.items():
        assert name.replace("_", "-") in out
        assert str(entry.year) in out
    for task in TASKS:
        assert f"\n{hyphenated(task)} " in f"\n{out}"
    assert run("list", "recipes", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert list(output["recipes"]) == list(RECIPES)
    assert run("list", "models", "--json") == 0
    bahdanau = json.loads(capsys.readouterr().out)["translation"]["bahdanau"]
    assert bahdanau["call"] == "regard.models.translation.Bahdanau(BahdanauConfig(..))"
    assert bahdanau["paper"] == "https://arxiv.org/abs/1409.0473"


def test_json_is_not_wrapped_by_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    assert run("list", "alignments", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert output["alignments"]["local_predictive"]["formula"] == ALIGNMENTS["local_predictive"].formula


def test_an_unknown_family_suggests_the_nearest(capsys):
    assert run("list", "alignmnts") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: there is no family 'alignmnts'; the nearest is 'alignments'.")
    assert "Traceback" not in captured.err


def test_tasks_are_listed_with_their_models_and_verbs(capsys):
    assert run("list", "tasks", "--json") == 0
    output = json.loads(capsys.readouterr().out)["tasks"]
    assert list(output) == list(TASKS)
    assert output["language_modeling"]["verb"] == "generate" and "gpt" in output["language_modeling"]["models"].split(
        ", "
    )
    assert run("list", "language-modeling", "--json") == 0
    gpt = json.loads(capsys.readouterr().out)["language_modeling"]["gpt"]
    assert gpt["call"] == "regard.models.language_modeling.GPT(GPTConfig(..))"
