"""Typed overrides: `model.num_layers=6`, `training.optimizer.learning_rate=1e-3`.

A key is a path through the settings of a run. `num_` may be left out of a name; an unknown key raises and names the
nearest; a value must be of the setting's type.
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, get_type_hints

from regard.contracts import nearest
from regard.recipes.typed import dataclasses_of, from_text

Settings = TypeVar("Settings")

FIXED = {
    "recipe": "the recipe is the command's first word",
    "model_name": "the model is chosen with --model",
    "source_vocab_size": "it follows from the tokenizer: set tokenizer.vocab_size",
    "target_vocab_size": "it follows from the tokenizer: set tokenizer.vocab_size",
    "model.vocab_size": "it follows from the tokenizer: set tokenizer.vocab_size",
    "num_classes": "it follows from the labels of the data",
    "entries": "it follows from the text that is counted",
    "classes": "they are the labels of the data",
}


def override(settings: Settings, *assignments: str) -> Settings:
    """The same settings with some of them changed, each as `key=value`."""
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{assignment!r} sets nothing. Write key=value, such as model.num_layers=6.")
        settings = changed(settings, key.strip().split("."), text, key.strip())
    return settings


def changed(settings: Any, path: list[str], text: str, key: str) -> Any:
    """The settings with the value at the end of the path replaced."""
    name = find_field(settings, path[0], key)
    if reason := FIXED.get(name) or FIXED.get(key):
        raise ValueError(f"{key} cannot be set: {reason}.")
    hint = get_type_hints(type(settings))[name]
    inner = getattr(settings, name)
    if len(path) > 1:
        if not is_dataclass(inner):
            raise ValueError(f"there is no setting {key!r}: {name} is {inner!r} and has no settings of its own.")
        return replace(settings, **{name: changed(inner, path[1:], text, key)})
    if is_dataclass(inner) and len(dataclasses_of(hint)) <= 1:
        within = ", ".join(f"{key}.{field.name}" for field in fields(inner))
        raise ValueError(f"{key} is a group of settings. Set one of them: {within}.")
    return replace(settings, **{name: from_text(hint, text, key)})


def find_field(settings: Any, name: str, key: str) -> str:
    """The field that was meant; `layers` is `num_layers`."""
    known = [field.name for field in fields(settings)]
    for candidate in (name.replace("-", "_"), f"num_{name.replace('-', '_')}"):
        if candidate in known:
            return candidate
    near = nearest(name, known)
    start = key.split(".")[: key.split(".").index(name)]
    settable = ", ".join(one for one in known if one not in FIXED)
    raise ValueError(f"there is no setting {key!r}; the nearest is {'.'.join([*start, near])!r}. Known: {settable}.")
