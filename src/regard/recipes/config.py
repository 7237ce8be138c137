"""A run as JSON and back.

config.json = {"regard": version, "recipe": .., "model_name": .., "model": {..}, "data": {..}, ..}
"""

from collections.abc import Mapping
from typing import Any, get_type_hints

from regard.contracts import nearest
from regard.recipes.table import RECIPES
from regard.recipes.tasks import TASKS
from regard.recipes.typed import from_plain, to_plain


def to_config(run: Any, version: str) -> dict[str, Any]:
    """What config.json holds."""
    return {"regard": version, **to_plain(run)}


def from_config(config: Mapping[str, Any], where: str) -> Any:
    """The run that a config.json tells of."""
    if "regard" not in config or "model_name" not in config:
        raise ValueError(f"{where} was not written by regard. Name a folder that `regard train` wrote.")
    given = {name: value for name, value in config.items() if name != "regard"}
    recipe = find(RECIPES, given.get("recipe"), f"{where}: recipe")
    task = TASKS[recipe.task]
    hints = {**get_type_hints(task.run), "data": recipe.corpus}
    hints["model"] = find(task.models, given.get("model_name"), f"{where}: model_name").config
    for name in given:
        if name not in hints:
            raise ValueError(f"{where} has no setting {name!r}; the nearest is {nearest(name, hints)!r}.")
    for name in hints:
        if name not in given:
            raise ValueError(f"{where} has no {name}, and needs one.")
    return task.run(**{name: from_plain(hint, given[name], f"{where}: {name}") for name, hint in hints.items()})


def find(table: Mapping[str, Any], name: Any, what: str) -> Any:
    """The entry of a table, or the nearest one named."""
    if not isinstance(name, str) or name not in table:
        raise ValueError(
            f"{what} is {name!r}; the nearest is {nearest(str(name), table)!r}. Known: {', '.join(table)}."
        )
    return table[name]
