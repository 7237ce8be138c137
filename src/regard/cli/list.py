"""`regard list`: every mechanism and model with its year, formula and paper; tasks; recipes; experiments."""

import inspect
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard._utils import find_name, hyphenated
from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import MASKS
from regard.attention.positions import POSITIONS
from regard.attention.scores import SCORES
from regard.contracts import MechanismEntry, ModelEntry
from regard.experiments import EXPERIMENTS
from regard.experiments.lib import Experiment
from regard.recipes import Recipe, all_recipes
from regard.tasks import TASKS, Task, all_tasks

MECHANISMS: dict[str, Mapping[str, Any]] = {
    "scores": SCORES,
    "alignments": ALIGNMENTS,
    "masks": MASKS,
    "positions": POSITIONS,
}
FACTS: dict[type, tuple[str, ...]] = {
    MechanismEntry: ("year", "formula", "cost", "paper", "call"),
    ModelEntry: ("year", "formula", "title", "paper", "call"),
    Task: ("verb", "title", "models"),
    Recipe: ("amount", "title", "task", "origin"),
    Experiment: ("number", "claim", "paper"),
}
SHORT = {"https://arxiv.org/abs/": "arXiv:", "https://doi.org/": "doi:"}
ONE_WORD = inspect.Parameter.POSITIONAL_OR_KEYWORD
LETTERS = (
    "q, k: a query, a key. i, j: their places. s: a score. Q, K: how many. d, h: their size, hidden units. L: length."
)
MODEL_LETTERS = (
    "Models: x, y are source and target tokens, h and s their states, c what is read of the source at a step."
)
MODELS = "models"
"""All families of models together."""
NAMES = (*MECHANISMS, "tasks", *map(hyphenated, TASKS), MODELS, "recipes", "experiments")


def families() -> dict[str, Mapping[str, Any]]:
    """Every table by its name, those of installed packages among them; the models are under the name of their task."""
    tasks = all_tasks()
    models = {name: task.models for name, task in tasks.items()}
    return {**MECHANISMS, "tasks": tasks, **models, "recipes": all_recipes(), "experiments": EXPERIMENTS}


def list_mechanisms(
    family: Annotated[str | None, typer.Argument(help=f"One of {', '.join(NAMES)}; all without it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs to read.")] = False,
) -> None:
    """Show every mechanism and model with its year, formula and paper; tasks; recipes; experiments."""
    tables = families()
    of_models = [name for name, table in tables.items() if isinstance(next(iter(table.values())), ModelEntry)]
    name = None if family is None else find_name(family, (*tables, MODELS), "family")
    chosen = list(tables) if name is None else of_models if name == MODELS else [name]
    console = Console()
    if as_json:
        facts = {name: facts_of(tables[name]) for name in chosen}
        console.print(json.dumps(facts, indent=2, ensure_ascii=False), soft_wrap=True, markup=False, highlight=False)
        return
    for name in chosen:
        console.print(table_of(name, tables[name]))
    for names, letters in ((MECHANISMS, LETTERS), (of_models, MODEL_LETTERS)):
        if set(chosen) & set(names):
            console.print(letters, style="dim", highlight=False)


def facts_of(family: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is known of each, in order."""
    return {name: {fact: fact_of(entry, fact) for fact in FACTS[type(entry)]} for name, entry in family.items()}


def fact_of(entry: Any, fact: str) -> Any:
    """One fact; the call is how to build the mechanism, with the arguments it must have."""
    if isinstance(entry, Task):
        return {"verb": entry.verb, "title": entry.title.en, "models": ", ".join(entry.models)}[fact]
    if fact != "call":
        return getattr(entry, fact)
    if isinstance(entry, ModelEntry):
        package = entry.build.__module__.rpartition(".")[0]
        return f"{package}.{entry.build.__name__}({entry.config.__name__}(..))"
    package = ".".join(entry.build.__module__.split(".")[:3])
    given = inspect.signature(entry.build).parameters.values()
    needed = [
        one.name if one.kind is ONE_WORD else f"{one.name}=.."
        for one in given
        if one.default is one.empty and one.kind in (one.KEYWORD_ONLY, ONE_WORD)
    ]
    return f"{package}.{entry.build.__name__}({', '.join(needed)})"


def table_of(title: str, family: Mapping[str, Any]) -> Table:
    """A family as a table: what it is, and below it in small print the rest, so that 80 columns lose nothing."""
    table = Table(
        title=hyphenated(title), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", padding=(0, 1, 0, 0)
    )
    first, main, *rest = FACTS[type(next(iter(family.values())))]
    table.add_column("name", style="bold", overflow="fold")
    table.add_column(first, overflow="fold")
    table.add_column(", ".join((main, *rest)), overflow="fold")
    for name, facts in facts_of(family).items():
        # as Text, never as markup: formulas have brackets
        small_print = Text("   ").join(Text(shortened(facts[fact]), style=style_of(facts[fact])) for fact in rest)
        told = Text("\n").join([Text(str(facts[main])), small_print])
        table.add_row(name if title in MECHANISMS else hyphenated(name), str(facts[first]), told)
    return table


def shortened(fact: str) -> str:
    """An address as people cite it."""
    for start, shorter in SHORT.items():
        fact = fact.replace(start, shorter)
    return fact


def style_of(fact: str) -> str:
    """Addresses are links, where the terminal knows them."""
    return f"dim link {fact}" if fact.startswith("https://") else "dim"
