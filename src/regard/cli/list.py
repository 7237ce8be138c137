"""`regard list`: every mechanism and every system with its year, formula and paper; recipes; experiments."""

import inspect
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.attention import ALIGNMENTS, MASKS, POSITIONS, SCORES
from regard.cli.names import find_name, spoken
from regard.contracts import Entry
from regard.experiments import EXPERIMENTS, Experiment
from regard.models import LANGUAGE_MODELS, MODELS, SENTENCE_MODELS, ModelEntry
from regard.recipes import RECIPES, Recipe

FAMILIES: dict[str, Mapping[str, Any]] = {
    "scores": SCORES,
    "alignments": ALIGNMENTS,
    "masks": MASKS,
    "positions": POSITIONS,
    "models": MODELS,
    "language_models": LANGUAGE_MODELS,
    "sentence_models": SENTENCE_MODELS,
    "recipes": RECIPES,
    "experiments": EXPERIMENTS,
}
FACTS: dict[type, tuple[str, ...]] = {
    Entry: ("year", "formula", "cost", "paper", "call"),
    ModelEntry: ("year", "formula", "title", "paper", "call"),
    Recipe: ("amount", "title", "origin"),
    Experiment: ("number", "claim", "paper"),
}
SPOKEN = ("models", "language_models", "sentence_models", "recipes", "experiments")
LANGUAGE, SENTENCES = "regard.models.language", "regard.models.sentences"
SHORT = {"https://arxiv.org/abs/": "arXiv:", "https://doi.org/": "doi:"}
ONE_WORD = inspect.Parameter.POSITIONAL_OR_KEYWORD
ATTENTION = ("scores", "alignments", "masks", "positions")
LETTERS = (
    "q, k: a query, a key. i, j: their places. s: a score. Q, K: how many. d, h: their size, hidden units. L: length."
)
MODEL_LETTERS = (
    "Models: x, y are source and target tokens, h and s their states, c what is read of the source at a step."
)
MORE_MODELS = "These translate. Others write (regard list language-models) or classify (regard list sentence-models)."


def list_mechanisms(
    family: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(map(spoken, FAMILIES))}; all without it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs to read.")] = False,
) -> None:
    """Show every mechanism and system with its year, formula and paper; recipes; experiments."""
    chosen = list(FAMILIES) if family is None else [find_name(family, FAMILIES, "family")]
    console = Console()
    if as_json:
        facts = {name: facts_of(FAMILIES[name]) for name in chosen}
        console.print(json.dumps(facts, indent=2, ensure_ascii=False), soft_wrap=True, markup=False, highlight=False)
        return
    for name in chosen:
        console.print(table_of(name, FAMILIES[name]))
    for families, letters in ((ATTENTION, LETTERS), (("models",), MODEL_LETTERS)):
        if set(chosen) & set(families):
            console.print(letters, style="dim", highlight=False)
    if chosen == ["models"]:
        console.print(MORE_MODELS, style="dim", highlight=False)


def facts_of(family: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is known of each, in order."""
    return {name: {fact: fact_of(entry, fact) for fact in FACTS[type(entry)]} for name, entry in family.items()}


def fact_of(entry: Any, fact: str) -> Any:
    """One fact; the call is how to build the mechanism, with the arguments it must have."""
    if fact != "call":
        return getattr(entry, fact)
    if isinstance(entry, ModelEntry):
        family = {LANGUAGE: ".language", SENTENCES: ".sentences"}.get(entry.build.__module__.rpartition(".")[0], "")
        return f"regard.models{family}.{entry.build.__name__}({entry.config.__name__}(..))"
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
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", padding=(0, 1, 0, 0))
    first, main, *rest = FACTS[type(next(iter(family.values())))]
    table.add_column("name", style="bold", overflow="fold")
    table.add_column(first, overflow="fold")
    table.add_column(", ".join((main, *rest)), overflow="fold")
    for name, facts in facts_of(family).items():
        # as Text, never as markup: formulas have brackets
        small_print = Text("   ").join(Text(shortened(facts[fact]), style=style_of(facts[fact])) for fact in rest)
        told = Text("\n").join([Text(str(facts[main])), small_print])
        table.add_row(spoken(name) if title in SPOKEN else name, str(facts[first]), told)
    return table


def shortened(fact: str) -> str:
    """An address as people cite it."""
    for start, shorter in SHORT.items():
        fact = fact.replace(start, shorter)
    return fact


def style_of(fact: str) -> str:
    """Addresses are links, where the terminal knows them."""
    return f"dim link {fact}" if fact.startswith("https://") else "dim"
