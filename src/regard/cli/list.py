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
ABBREVIATIONS = {"https://arxiv.org/abs/": "arXiv:", "https://doi.org/": "doi:"}
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
SYMBOLS = (
    "q, k: a query, a key. i, j: their positions. s: a score. Q, K: their number. d: their size. h: hidden units. "
    "L: length."
)
MODEL_SYMBOLS = (
    "Models: x, y are source and target tokens, h and s their states, c the context that attention gives at a step."
)
ALL_MODELS = "models"
"""The families of all tasks together."""
NAMES = (*MECHANISMS, "tasks", *map(hyphenated, TASKS), ALL_MODELS, "recipes", "experiments")


def families() -> dict[str, Mapping[str, Any]]:
    """Every table by its name, entries of other packages included; models are under the name of their task."""
    tasks = all_tasks()
    models = {name: task.models for name, task in tasks.items()}
    return {**MECHANISMS, "tasks": tasks, **models, "recipes": all_recipes(), "experiments": EXPERIMENTS}


def list_mechanisms(
    family: Annotated[str | None, typer.Argument(help=f"One of {', '.join(NAMES)} (default: all).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    tables = families()
    # a table has entries of one type, so the first one decides
    model_families = [name for name, table in tables.items() if isinstance(next(iter(table.values())), ModelEntry)]
    choice = None if family is None else find_name(family, (*tables, ALL_MODELS), "family")
    names = list(tables) if choice is None else model_families if choice == ALL_MODELS else [choice]
    console = Console()
    if as_json:
        facts = {name: facts_of(tables[name]) for name in names}
        # no wrapping and no markup, or the output would not be valid JSON
        console.print(json.dumps(facts, indent=2, ensure_ascii=False), soft_wrap=True, markup=False, highlight=False)
        return
    for name in names:
        console.print(rich_table(name, tables[name]))
    for group, symbols in ((MECHANISMS, SYMBOLS), (model_families, MODEL_SYMBOLS)):
        if set(names) & set(group):
            console.print(symbols, style="dim", highlight=False)


def facts_of(family: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: {fact: fact_of(entry, fact) for fact in FACTS[type(entry)]} for name, entry in family.items()}


def fact_of(entry: Any, fact: str) -> Any:
    """One fact; `call` builds the mechanism with the arguments that have no default."""
    if isinstance(entry, Task):
        return {"verb": entry.verb, "title": entry.title.en, "models": ", ".join(entry.models)}[fact]
    if isinstance(entry, Experiment) and fact == "claim":
        return entry.claim.en
    if fact != "call":
        return getattr(entry, fact)
    if isinstance(entry, ModelEntry):
        # models are imported from their package, not from the module of their class
        package = entry.build.__module__.rpartition(".")[0]
        return f"{package}.{entry.build.__name__}({entry.config.__name__}(..))"
    # mechanisms are imported from their family, such as regard.attention.scores
    package = ".".join(entry.build.__module__.split(".")[:3])
    required = [
        # keyword-only arguments have no position
        parameter.name if parameter.kind is POSITIONAL else f"{parameter.name}=.."
        for parameter in inspect.signature(entry.build).parameters.values()
        if parameter.default is parameter.empty and parameter.kind in (parameter.KEYWORD_ONLY, POSITIONAL)
    ]
    return f"{package}.{entry.build.__name__}({', '.join(required)})"


def rich_table(title: str, family: Mapping[str, Any]) -> Table:
    """A family as a table. The last column has the other facts on a second line, so that 80 columns are enough."""
    table = Table(
        title=hyphenated(title), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", padding=(0, 1, 0, 0)
    )
    # the columns follow from the type of the entries
    first, main, *rest = FACTS[type(next(iter(family.values())))]
    table.add_column("name", style="bold", overflow="fold")
    table.add_column(first, overflow="fold")
    table.add_column(", ".join((main, *rest)), overflow="fold")
    for name, facts in facts_of(family).items():
        # as Text, never as markup: formulas have brackets
        second_line = Text("   ").join(Text(shortened(facts[fact]), style=style_of(facts[fact])) for fact in rest)
        description = Text("\n").join([Text(str(facts[main])), second_line])
        # mechanisms have the names of Python code, all others may be typed with hyphens
        table.add_row(name if title in MECHANISMS else hyphenated(name), str(facts[first]), description)
    return table


def shortened(fact: str) -> str:
    """An address as it is cited, such as arXiv:1706.03762."""
    for start, shorter in ABBREVIATIONS.items():
        fact = fact.replace(start, shorter)
    return fact


def style_of(fact: str) -> str:
    """Addresses are links in terminals that support them."""
    return f"dim link {fact}" if fact.startswith("https://") else "dim"
