"""The table of recipes; recipes of other packages come by entry point or as `file.py:name`."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard._utils import find_entry_points, find_object, is_reference
from regard.recipes.multi30k import multi30k
from regard.recipes.pairs import pairs
from regard.recipes.ptb import ptb
from regard.recipes.sentences import sentences
from regard.recipes.synthetic import copy, dates, invented, reverse
from regard.recipes.tatoeba import tatoeba
from regard.recipes.text import text, topics
from regard.recipes.tinyshakespeare import tinyshakespeare, tinyshakespeare_small


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A function that returns a complete run, with a title, the amount of data and its origin.

    `task` is the name of the task of its runs, or empty where only a run shows it.
    """

    make: Callable[..., Any]
    amount: str
    title: str
    origin: str
    task: str = ""


GROUP = "regard.recipes"

RECIPES = {
    "multi30k": Recipe(
        make=multi30k,
        amount="29,000 pairs",
        title="image captions, en-de, en-fr, de-en ..",
        origin="https://github.com/multi30k/dataset",
        task="translation",
    ),
    "tatoeba": Recipe(
        make=tatoeba,
        amount="29,155 to 169,197 pairs",
        title="everyday sentences, en-zh, en-fr, en-de and back",
        origin="https://www.manythings.org/anki",
        task="translation",
    ),
    "pairs": Recipe(
        make=pairs,
        amount="yours",
        title="your own files: two text files, or one .tsv or .jsonl",
        origin="--source, --target",
        task="translation",
    ),
    "dates": Recipe(
        make=dates,
        amount="unlimited",
        title="dates in written formats, en-zh, all-iso, any of 22 languages",
        origin="synthetic, with babel",
        task="translation",
    ),
    "invented": Recipe(
        make=invented,
        amount="unlimited",
        title="an invented language into another, with known word alignments",
        origin="synthetic",
        task="translation",
    ),
    "reverse": Recipe(
        make=reverse, amount="unlimited", title="strings of letters to reverse", origin="synthetic", task="translation"
    ),
    "copy": Recipe(
        make=copy, amount="unlimited", title="strings of letters to copy", origin="synthetic", task="translation"
    ),
    "ptb": Recipe(
        make=ptb,
        amount="929,589 words",
        title="Penn Treebank, as words",
        origin="https://www.fit.vutbr.cz/~imikolov/rnnlm",
        task="language_modeling",
    ),
    "tinyshakespeare": Recipe(
        make=tinyshakespeare,
        amount="1,115,394 letters",
        title="Shakespeare, as characters, for a GPU",
        origin="https://github.com/karpathy/char-rnn",
        task="language_modeling",
    ),
    "tinyshakespeare_small": Recipe(
        make=tinyshakespeare_small,
        amount="1,115,394 letters",
        title="the same, for two CPU cores",
        origin="https://github.com/karpathy/char-rnn",
        task="language_modeling",
    ),
    "topics": Recipe(
        make=topics,
        amount="about 440,000 letters",
        title="Python's own documentation",
        origin="pydoc_data.topics",
        task="language_modeling",
    ),
    "text": Recipe(
        make=text,
        amount="yours",
        title="your own text file",
        origin="--data",
        task="language_modeling",
    ),
    "sentences": Recipe(
        make=sentences,
        amount="yours",
        title="your own sentences with classes, or TREC, SST ..",
        origin="--data",
        task="text_classification",
    ),
}


def all_recipes() -> dict[str, Recipe]:
    """The recipes of installed packages and of the table, by name."""
    # the table is last, so that a package cannot replace one of its recipes
    return {**{name: find_recipe(name) for name in find_entry_points(GROUP)}, **RECIPES}


def find_recipe(name: str) -> Recipe:
    """The recipe of a name, or of a reference such as `my_recipe.py:my_run` to a Recipe or a function."""
    recipe = find_object(name, RECIPES, GROUP, "recipe", hint="; or your own file.py:name")
    if isinstance(recipe, Recipe):
        return recipe
    if not callable(recipe):
        raise ValueError(f"{name} is a {type(recipe).__name__}, expected a function that returns a run.")
    # a plain function has no card: its docstring replaces the title
    about = (inspect.getdoc(recipe) or "").partition("\n")[0]
    origin = name if is_reference(name) else find_entry_points(GROUP)[name].value
    # the task is known once the function has made a run
    return Recipe(make=recipe, amount="", title=about, origin=origin, task="")


def make_run(recipe: str, model: str | None = None, **arguments: Any) -> Any:
    """The run of a recipe; the error for an unknown argument lists the accepted ones."""
    make = find_recipe(recipe).make
    parameters = inspect.signature(make).parameters
    if model is not None and "model" not in parameters:
        raise ValueError(f"the recipe {recipe} has a fixed model. Leave out the model.")
    for name in arguments:
        if name not in parameters:
            takes = ", ".join(other for other in parameters if other != "model") or "nothing"
            raise ValueError(f"the recipe {recipe} does not accept {name}. It accepts {takes}.")
    for name, parameter in parameters.items():
        # `model` is an argument of its own here
        if parameter.default is parameter.empty and name not in arguments and (name != "model" or model is None):
            raise ValueError(f"the recipe {recipe} needs {name}. Give it with --{name.replace('_', '-')}.")
    return make(**arguments) if model is None else make(model=model, **arguments)
