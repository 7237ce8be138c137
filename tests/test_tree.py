"""Files are short, tables are in history order, the version is in one place."""

import ast
import tomllib
from pathlib import Path

import pytest

import regard
from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import MASKS
from regard.attention.positions import POSITIONS
from regard.attention.scores import SCORES

ROOT = Path(__file__).parents[1]
FILES = sorted(ROOT.glob("src/**/*.py")) + sorted(ROOT.glob("benchmarks/*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= 40, f"{path.name}: {node.name} has {length} lines"


@pytest.mark.parametrize("table", [SCORES, ALIGNMENTS, MASKS, POSITIONS])
def test_tables_are_in_history_order_and_complete(table):
    years = [entry.year for entry in table.values()]
    assert years == sorted(years)
    for entry in table.values():
        assert entry.formula
        assert entry.cost.startswith("O(")
        assert entry.paper.startswith("https://")


def test_the_version_is_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'VERSION = "{regard.__version__}"' in source.read_text()
