"""A wheel and a source distribution contain the studio's page, or their build fails with a sentence."""

import os
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import build_page

ROOT = Path(__file__).parents[1]
NPM = f"""#!{sys.executable}
import pathlib, sys

pathlib.Path("calls").open("a").write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1] == pathlib.Path("failing").read_text():
    sys.exit("no network")
if sys.argv[1] == "run":
    page = pathlib.Path("../src/regard/studio/static/index.html")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("<p>built")
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A clone without a page, on a machine without Node."""
    root = tmp_path / "clone"
    (root / "web" / "src").mkdir(parents=True)
    (root / "web" / "package.json").write_text("{}")
    (root / "web" / "src" / "main.ts").write_text("")
    (root / "web" / "failing").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("REGARD_WITHOUT_PAGE", raising=False)
    return root


@pytest.fixture
def npm(tree):
    program = tree.parent / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(NPM)
    program.chmod(0o755)


def calls(tree):
    path = tree / "web" / "calls"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def no_warning(message):
    raise AssertionError(message)


def make_page(tree, *, seconds):
    """A page that is older than its sources by a number of seconds."""
    page = tree / build_page.PAGE
    page.parent.mkdir(parents=True)
    page.write_text("<p>present")
    edited = (tree / "web" / "src" / "main.ts").stat().st_mtime
    for path in (tree / "web").rglob("*"):
        os.utime(path, (edited, edited))
    os.utime(page, (edited - seconds, edited - seconds))


def text_of(tree):
    return (tree / build_page.PAGE).read_text()


def test_a_clone_without_a_page_builds_it(tree, npm):
    build_page.prepare_page(tree, "standard", no_warning)
    assert calls(tree) == ["install", "run"] and text_of(tree) == "<p>built"


def test_without_npm_the_build_fails_and_names_the_command(tree):
    with pytest.raises(build_page.PageError, match=r"page is not built, and there is no npm.*Node\.js.*`make page`"):
        build_page.prepare_page(tree, "standard", no_warning)


@pytest.mark.parametrize("command", ["install", "run"])
def test_when_npm_fails_the_build_fails_with_its_output(tree, npm, command):
    (tree / "web" / "failing").write_text(command)
    with pytest.raises(build_page.PageError, match=rf"(?s)`npm {command}.*` failed.*`make page`.*no network"):
        build_page.prepare_page(tree, "standard", no_warning)


def test_a_page_that_is_present_is_used_as_it_is(tree, npm):
    make_page(tree, seconds=0)
    build_page.prepare_page(tree, "standard", no_warning)
    assert calls(tree) == [] and text_of(tree) == "<p>present"


def test_a_page_that_is_older_than_its_sources_is_built_again(tree, npm):
    make_page(tree, seconds=60)
    build_page.prepare_page(tree, "standard", no_warning)
    assert calls(tree) == ["install", "run"] and text_of(tree) == "<p>built"


def test_a_page_that_cannot_be_built_again_is_used_with_a_warning(tree):
    make_page(tree, seconds=60)
    warnings = []
    build_page.prepare_page(tree, "standard", warnings.append)
    assert len(warnings) == 1 and "older than web/" in warnings[0] and text_of(tree) == "<p>present"


def test_an_editable_install_needs_no_page(tree, npm):
    build_page.prepare_page(tree, "editable", no_warning)
    assert calls(tree) == []


def test_the_page_can_be_left_out(tree, monkeypatch):
    monkeypatch.setenv("REGARD_WITHOUT_PAGE", "1")
    build_page.prepare_page(tree, "standard", no_warning)
    assert build_page.required_packages(tree) == []


def test_node_is_required_only_where_the_page_must_be_built_without_it(tree, monkeypatch):
    def get_requires_for_build_editable():
        return build_page.required_packages(tree)

    assert build_page.required_packages(tree) == [build_page.NODE_PACKAGE]
    assert get_requires_for_build_editable() == []
    make_page(tree, seconds=0)
    assert build_page.required_packages(tree) == []


def test_where_there_is_npm_nothing_is_required(tree, npm):
    assert build_page.required_packages(tree) == []


class Hook:
    """What the test uses of hatchling's base class."""

    def __init__(self, root, app):
        self.root, self.app = root, app


@pytest.fixture
def make_hook(monkeypatch):
    module = ModuleType("interface")
    module.BuildHookInterface = Hook
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", module)
    return build_page.get_build_hook()


def test_hatch_aborts_with_the_sentence(tree, make_hook):
    messages = []
    app = SimpleNamespace(abort=messages.append, display_warning=no_warning)
    hook = make_hook(str(tree), app)
    assert hook.dependencies() == [build_page.NODE_PACKAGE]
    hook.initialize("standard", {})
    assert len(messages) == 1 and messages[0].startswith("regard: the studio's page is not built")


def test_hatch_runs_this_file_for_wheels_and_source_distributions():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["hooks"]["custom"]["path"] == "build_page.py"
    folder = str(build_page.PAGE.parent)
    assert all(folder in build["targets"][target]["artifacts"] for target in ("wheel", "sdist")), "git ignores the page"
