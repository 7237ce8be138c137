"""The examples of README, CONTRIBUTING and docs: Python runs, commands parse, names and links exist."""

import doctest
import re
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest
from rich.console import Console

import regard
from regard import testing
from regard._utils import find_name, override
from regard.cli.list import ALL_MODELS, families
from regard.cli.main import COMMANDS, load_command
from regard.cli.train import plan
from regard.experiments import EXPERIMENTS
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes import make_run
from regard.tasks import fit, load

ROOT = Path(__file__).parents[1]
PAGES = [path.relative_to(ROOT).as_posix() for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], key=str)]
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
BLOCK = r"```{}\n(.*?)```"
# the contract checks call torch.compile, which cannot trace the run-time checks of shapes
UNCHECKED = ("CONTRIBUTING.md", "docs/testing.md")
ENTRY_POINTS = ("regard.corpora",)
"""Groups of entry points, which are not modules."""
EXPECTED = {
    "README.md": lambda names: names["attended"].cache.length == 6,
    "README.zh.md": lambda names: names["attended"].cache.length == 6,
    "CONTRIBUTING.md": lambda names: names["Manhattan"].__name__ == "Manhattan",
    "docs/attention.md": lambda names: names["choice"].backend == "sdpa",
    "docs/language.md": lambda names: names["report"].info.split == "test" and names["continuation"].tokens,
    "docs/sentences.md": lambda names: names["report"].info.split == "test" and names["output"].weights.shape[0] == 2,
    "docs/testing.md": lambda names: names["message"] in TEXTS["docs/testing.md"].replace("\n    ", " "),
    "docs/translation.md": lambda names: names["best"].weights.shape[1] == 4 and names["trained"].result.steps > 0,
}
"""Results that the examples of a page must give."""


def blocks(page, language):
    """The code blocks of a page in a language."""
    return re.findall(BLOCK.format(language), TEXTS[page], re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.unchecked if page in UNCHECKED else ())
        for page in PAGES
        if blocks(page, "python")
    ],
)
def test_the_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
    assert EXPECTED[page](names), page


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "pycon")])
def test_the_interactive_examples_run_on_a_small_model(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = {"embedding_size": 8, "hidden_size": 8, "alignment_size": 8, "maxout_size": 8}
    run = override(make_run("dates", "bahdanau", steps=2), *(f"model.{name}={size}" for name, size in sizes.items()))
    run = override(run, "validation.sentences=2", "batch.tokens=200")
    fit(run, "demo/bahdanau", console=Console(quiet=True))
    names = {}
    for block in blocks(page, "pycon"):
        for example in doctest.DocTestParser().get_examples(block):
            exec(compile(example.source, page, "exec"), names)
    assert "rows: queries, columns: keys" in capsys.readouterr().out
    assert names["translation"].weights.shape[1] == len(names["translation"].source_tokens)


def commands(page):
    """The arguments of every `regard` command in the console blocks of a page."""
    regard_calls = []
    for block in blocks(page, "console"):
        lines = re.sub(r"\\\n\s*", "", block).replace("<folder>", "data").splitlines()
        for line in lines:
            words = shlex.split(line.removeprefix("$ "), comments=True)
            regard_calls += [call[1:] for call in split_calls(words) if call[:1] == ["regard"]]
    # commands that other programs start
    for line in TEXTS[page].splitlines():
        if match := re.search(r"(?:torchrun|accelerate launch) .*?regard (train [^`:]*)", line):
            regard_calls.append(shlex.split(match[1]))
    return regard_calls


def split_calls(words):
    """The calls of a pipeline, without redirections."""
    calls, rest = [[]], iter(words)
    for word in rest:
        if word == "|":
            calls.append([])
        elif word in ("<", ">"):
            next(rest)
        else:
            calls[-1].append(word)
    return calls


COMMAND_LINES = [(page, " ".join(map(shlex.quote, words))) for page in PAGES for words in commands(page)]


@pytest.mark.parametrize(("page", "line"), COMMAND_LINES)
def test_the_commands_parse(page, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *arguments = [word for word in shlex.split(line) if word != "..."]
    command = load_command(name)
    options = command.make_context(name, list(arguments)).params
    if name != "train" or options["resume"]:
        return
    if ":" in (options["recipe"] or ""):
        write_recipe(tmp_path)
    files = ("pair", "data", "source", "target", "valid_source", "valid_target", "test_source", "test_target")
    for key in files[1:]:
        if options[key] is not None:
            prepare(options[key])
    settings = {} if options["steps"] is None else {"training.steps": options["steps"]}
    run = plan(
        options["recipe"],
        options["model"],
        {key: options[key] for key in files},
        {"training.steps": None} | settings,
        options["assignments"] or [],
    )
    assert options["model"] in (None, run.model_name)


def prepare(path):
    """A data folder, or an empty file: a run is planned without its contents."""
    if path.suffix:
        path.touch()
    else:
        path.mkdir(exist_ok=True)


def write_recipe(folder):
    """The recipe of the guide to translation, as a file."""
    section = TEXTS["docs/translation.md"].split("## Your own recipe")[1]
    path = folder / "my_recipe.py"
    path.write_text(re.search(BLOCK.format("python"), section, re.DOTALL)[1], encoding="utf-8")
    return path


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist(page):
    spans = re.findall(r"`(regard [^`]+)`", re.sub(r"```.*?```", "", TEXTS[page], flags=re.DOTALL))
    for span in spans:
        name, *arguments = shlex.split(span.removeprefix("regard "))
        assert name in COMMANDS, span
        command = load_command(name)
        # options must exist; required options may be omitted here
        command.make_parser(click.Context(command)).parse_args(list(arguments))
        if name == "list" and arguments:
            assert find_name(arguments[0], [*families(), ALL_MODELS], "family"), span
        # options were parsed above
        if name == "experiment" and arguments and not arguments[0].startswith("--"):
            assert arguments[0].replace("-", "_") in EXPERIMENTS, span


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_names_of_the_package_exist(page):
    for name in re.findall(r"`regard((?:\.\w+)+)", TEXTS[page]):
        if f"regard{name}" in ENTRY_POINTS:
            continue
        parts, owner = name.strip(".").split("."), regard
        for number, part in enumerate(parts):
            try:
                owner = getattr(owner, part)
            except AttributeError:
                owner = import_module(".".join(("regard", *parts[: number + 1])))


@pytest.mark.parametrize("page", PAGES)
def test_links_have_targets(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", TEXTS[page], flags=re.DOTALL)):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


def anchors(text):
    """The anchors of a page's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_page_of_the_contract_checks_names_every_check():
    for name in testing.__all__:
        if name.startswith("check_") or name.endswith("_CHECKS"):
            assert f"`{name}" in TEXTS["docs/testing.md"], f"docs/testing.md does not name {name}"


def test_the_recipe_of_the_guide_trains_and_loads(tmp_path):
    path = write_recipe(tmp_path)
    run = override(make_run(f"{path}:digits", steps=3), "validation.sentences=4", "training.every.log=1")
    fit(run, tmp_path / "run", console=Console(quiet=True))
    loaded = load(tmp_path / "run")
    assert loaded.run == override(loaded.run, "training.steps=3") and type(loaded.run.data).__name__ == "Digits"
    splits = [{pair.source for pair in loaded.run.data.read(split)} for split in loaded.run.data.splits]
    assert all(splits) and not splits[0] & splits[1] and not splits[0] & splits[2]
    assert loaded.evaluate(loaded.run.data.read("test"), split="test", beam=1).info.examples == len(splits[2])


@pytest.mark.parametrize(
    ("page", "family"),
    [
        ("docs/translation.md", TRANSLATION_MODELS),
        ("docs/language.md", LANGUAGE_MODELS),
        ("docs/sentences.md", TEXT_CLASSIFICATION_MODELS),
    ],
)
def test_every_system_has_a_row(page, family):
    rows = {line.split("`")[1]: line for line in TEXTS[page].splitlines() if line.startswith("| `")}
    for name, entry in family.items():
        assert f"| {entry.year} |" in rows[name]
