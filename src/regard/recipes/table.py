"""Every recipe by its name: a function that returns a complete run, and the settings that its data have."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.contracts import check_name
from regard.recipes.corpora import Multi30kCorpus, TatoebaCorpus
from regard.recipes.files import FileCorpus
from regard.recipes.made import MadeCorpus
from regard.recipes.multi30k import multi30k
from regard.recipes.run import Run
from regard.recipes.text import pairs, tatoeba
from regard.recipes.toys import copy, dates, reverse


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A function that returns a complete run for a model, what it is about, and where its sentences come from."""

    make: Callable[..., Run]
    corpus: type
    pairs: str
    title: str
    origin: str


RECIPES = {
    "multi30k": Recipe(
        make=multi30k,
        corpus=Multi30kCorpus,
        pairs="29,000",
        title="image captions, en-de, en-fr, de-en ..",
        origin="https://github.com/multi30k/dataset",
    ),
    "tatoeba": Recipe(
        make=tatoeba,
        corpus=TatoebaCorpus,
        pairs="29,155 to 169,197",
        title="everyday sentences, en-zh, en-fr, en-de and back",
        origin="https://www.manythings.org/anki",
    ),
    "pairs": Recipe(
        make=pairs,
        corpus=FileCorpus,
        pairs="yours",
        title="your own files: two of lines, or one .tsv or .jsonl",
        origin="--source, --target",
    ),
    "dates": Recipe(
        make=dates,
        corpus=MadeCorpus,
        pairs="endless",
        title="dates as people write them, en-zh, all-iso, any of 22 languages",
        origin="made, with babel",
    ),
    "reverse": Recipe(
        make=reverse, corpus=MadeCorpus, pairs="endless", title="letters, the last one first", origin="made"
    ),
    "copy": Recipe(make=copy, corpus=MadeCorpus, pairs="endless", title="letters as they are", origin="made"),
}

CORPORA = {name: recipe.corpus for name, recipe in RECIPES.items()}


def make_run(recipe: str, model: str | None = None, **given: Any) -> Run:
    """The run of a recipe; an argument that it does not take is named."""
    check_name(recipe, RECIPES, "recipe")
    make = RECIPES[recipe].make
    known = inspect.signature(make).parameters
    for name in given:
        if name not in known:
            takes = ", ".join(one for one in known if one != "model") or "nothing"
            raise ValueError(f"the recipe {recipe} takes no {name}. It takes {takes}.")
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in given:
            raise ValueError(f"the recipe {recipe} needs {name}. Name it with --{name}.")
    return make(**given) if model is None else make(model, **given)
