"""The tree is the design: README's tree is the disk's, files are short, tables are in history order."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import regard
from regard.attention import ALIGNMENTS, MASKS, POSITIONS, SCORES

ROOT = Path(__file__).parents[1]
FILES = sorted(ROOT.glob("src/**/*.py")) + sorted(ROOT.glob("benchmarks/*.py"))


def tree_of(readme):
    """Paths named in the README's tree, from its indentation."""
    block = re.search(r"```tree\n(.*?)```", (ROOT / readme).read_text(), re.S)
    assert block, f"{readme} has no ```tree block"
    paths, folders = set(), []
    for line in block[1].splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        folders = [*folders[:depth], name.rstrip("/")]
        assert len(line.split()) > 1, f"{name} has no purpose beside it"
        if not name.endswith("/"):
            paths.add("/".join(folders))
    return paths


def on_disk():
    """Every Python file of the package, the benchmarks and the tests, but for the packages' own tables of names."""
    found = set()
    for pattern in ("src/regard/**/*.py", "benchmarks/*.py", "tests/**/*.py"):
        found |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)}
    return {path for path in found if not path.endswith("/__init__.py") or path == "src/regard/__init__.py"}


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_readme_prints_the_tree_that_is_there(readme):
    told = {path for path in tree_of(readme) if path.endswith(".py")}
    assert told == on_disk()
    assert all((ROOT / path).exists() for path in tree_of(readme))


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
