"""A run as JSON and back.

    config.json = {"regard": version, "task": .., "corpus": .., "recipe": .., "model_name": .., "model": {..}, ..}

Task and corpus are names of their tables, or references (`file.py:name`, `module:name`). The recipe is a label. Configs
of 0.1 name the recipe alone, from which task and corpus follow.
"""

from collections.abc import Mapping
from typing import Any, get_type_hints

from regard.contracts import nearest
from regard.recipes.corpus_table import corpus_name, find_corpus
from regard.recipes.tasks import find_task, task_name
from regard.recipes.typed import from_plain, to_plain

RECIPES_0_1 = {
    "multi30k": ("translation", "multi30k"),
    "tatoeba": ("translation", "tatoeba"),
    "pairs": ("translation", "parallel_files"),
    "dates": ("translation", "synthetic"),
    "reverse": ("translation", "synthetic"),
    "copy": ("translation", "synthetic"),
    "ptb": ("language_modeling", "ptb"),
    "tinyshakespeare": ("language_modeling", "tinyshakespeare"),
    "tinyshakespeare_small": ("language_modeling", "tinyshakespeare"),
    "topics": ("language_modeling", "python_topics"),
    "text": ("language_modeling", "text_files"),
    "sentences": ("text_classification", "labelled_files"),
}
"""Task and corpus of every recipe of 0.1."""


def to_config(run: Any, version: str) -> dict[str, Any]:
    """The content of config.json."""
    return {"regard": version, "task": task_name(run), "corpus": corpus_name(type(run.data)), **to_plain(run)}


def from_config(config: Mapping[str, Any], where: str) -> Any:
    """The run that a config.json describes."""
    if "regard" not in config or "model_name" not in config:
        raise ValueError(f"{where} was not written by regard. Name a folder that `regard train` wrote.")
    settings = {name: value for name, value in config.items() if name not in ("regard", "task", "corpus")}
    if "task" in config:
        names = config["task"], config.get("corpus")
    else:
        names = find_in(RECIPES_0_1, settings.get("recipe"), f"{where}: recipe")
    task = imported(find_task, names[0], f"{where}: task")
    corpus = imported(find_corpus, names[1], f"{where}: corpus")
    hints = {**get_type_hints(task.run_type), "data": corpus}
    hints["model"] = find_in(task.models, settings.get("model_name"), f"{where}: model_name").config
    for name in settings:
        if name not in hints:
            raise ValueError(f"{where} has no {name!r}; the nearest is {nearest(name, hints)!r}.")
    for name in hints:
        if name not in settings:
            raise ValueError(f"{where} has no {name}, and needs one.")
    return task.run_type(**{name: from_plain(hint, settings[name], f"{where}: {name}") for name, hint in hints.items()})


def find_in(table: Mapping[str, Any], name: Any, what: str) -> Any:
    """The entry of a table; the error for an unknown name has the nearest one."""
    if not isinstance(name, str) or name not in table:
        raise ValueError(
            f"{what} is {name!r}; the nearest is {nearest(str(name), table)!r}. Known: {', '.join(table)}."
        )
    return table[name]


def imported(find: Any, name: Any, what: str) -> Any:
    """What a name or a reference stands for, or why it stands for nothing."""
    if not isinstance(name, str):
        raise ValueError(f"{what} is {name!r}, expected a name or a reference such as file.py:name.")
    try:
        return find(name)
    except ValueError as error:
        raise ValueError(
            f"{what} is {name!r}, and {error} Put it back, or write into {what.partition(':')[0]} where it is now."
        ) from error
