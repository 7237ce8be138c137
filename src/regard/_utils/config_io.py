"""Dataclasses to JSON and back by their types, and typed `--set` overrides.

Dataclasses by their types: to plain JSON and strictly back, and one value from the text a person typed.

A field's annotation decides what it may hold: int, float, bool, str, Literal, tuple, None, another dataclass, or one
of several dataclasses, which is then tagged with its name (`{"kind": "Cosine", ..}`).

Typed overrides: `model.num_layers=6`, `training.optimizer.learning_rate=1e-3`.

A key is a path through the settings of a run. `num_` may be left out of a name; an unknown key raises and names the
nearest; a value must be of the setting's type.
"""

import json
import math
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard._utils.names import nearest

NOT_FINITE = ("nan", "inf", "-inf")
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path", NoneType: "none"}


def options(hint: Any) -> tuple[Any, ...]:
    """The types a field may hold, one by one."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def dataclasses_of(hint: Any) -> dict[str, type]:
    """The dataclasses among the types a field may hold, by name."""
    return {one.__name__: one for one in options(hint) if isinstance(one, type) and is_dataclass(one)}


def said(hint: Any) -> str:
    """A type as people say it."""
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list, each {said(get_args(hint)[0])}"
    if len(options(hint)) > 1:
        return " or ".join(map(said, options(hint)))
    return WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def to_plain(value: Any, hint: Any = Any) -> Any:
    """A dataclass of settings or figures as JSON can hold it; numbers that JSON lacks are words: "nan", "inf"."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        plain = {field.name: to_plain(getattr(value, field.name), hints[field.name]) for field in fields(value)}
        return {"kind": type(value).__name__, **plain} if len(dataclasses_of(hint)) > 1 else plain
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, Path) else value


def from_plain(hint: Any, plain: Any, where: str) -> Any:
    """The value that `to_plain` wrote; the error for what is missing, unknown or of another type names the place."""
    if isinstance(plain, dict):
        return build(choose_class(hint, plain, where), plain, where)
    for option in options(hint):
        if get_origin(option) is tuple and isinstance(plain, (list, tuple)):
            item = get_args(option)[0]
            return tuple(from_plain(item, value, f"{where}[{number}]") for number, value in enumerate(plain))
        if fits(option, plain):
            return option(plain) if option in (float, Path) else plain
    raise ValueError(f"{where} is {json.dumps(plain, default=repr)}, expected {said(hint)}.")


def choose_class(hint: Any, plain: dict[str, Any], where: str) -> type:
    """The dataclass a tagged or a plain object stands for."""
    known = dataclasses_of(hint)
    if not known:
        raise ValueError(f"{where} is an object, expected {said(hint)}.")
    if len(known) == 1:
        return next(iter(known.values()))
    first = next(iter(known.values()))
    if "kind" not in plain and set(plain) <= set(get_type_hints(first)):
        # written when there was but one
        return first
    kind = plain.get("kind")
    if kind not in known:
        raise ValueError(f"{where} has kind {kind!r}. Known: {', '.join(known)}.")
    return known[kind]


def build(cls: type, plain: dict[str, Any], where: str) -> Any:
    """A dataclass from all of its fields and no others."""
    hints = get_type_hints(cls)
    given = {name: value for name, value in plain.items() if name != "kind" or "kind" in hints}
    for name in given:
        if name not in hints:
            raise ValueError(f"{where} has no {name!r}; the nearest is {nearest(name, hints)!r}.")
    for field in fields(cls):
        if field.name not in given and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where} has no {field.name}, and needs one.")
    return cls(**{name: from_plain(hints[name], value, f"{where}.{name}") for name, value in given.items()})


def fits(hint: Any, plain: Any) -> bool:
    """Whether a plain value may stand where a type is expected; a whole number may stand for a number."""
    if get_origin(hint) is Literal:
        return plain in get_args(hint)
    if hint is float:
        return plain in NOT_FINITE or (isinstance(plain, (int, float)) and not isinstance(plain, bool))
    if hint is int:
        return isinstance(plain, int) and not isinstance(plain, bool)
    if hint is Path:
        return isinstance(plain, str)
    return hint is Any or (isinstance(hint, type) and isinstance(plain, hint))


def from_text(hint: Any, text: str, where: str) -> Any:
    """What a person typed, in the type of the setting."""
    for option in sorted(options(hint), key=lambda option: option is str):
        value = read_text(option, text.strip())
        if value is not MISSING:
            return value
    raise ValueError(f"{where} is {said(hint)}, and {text!r} is not.")


def read_text(hint: Any, text: str) -> Any:
    """The value of one type, or MISSING where the text says none."""
    words: dict[str, Any] = {}
    if hint is bool:
        words = {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}
    elif hint is NoneType:
        words = {"none": None, "null": None}
    elif is_dataclass(hint) and isinstance(hint, type):
        # AdamSettings, adam_settings or adam
        words = dict.fromkeys((hint.__name__.lower(), hint.__name__.lower().removesuffix("settings")), hint)
        found = words.get(text.replace("_", "").lower(), MISSING)
        return found if found is MISSING else found()
    elif get_origin(hint) is Literal:
        words = {str(known).lower(): known for known in get_args(hint)}
    elif get_origin(hint) is tuple:
        parts = [read_text(get_args(hint)[0], part.strip()) for part in text.split(",") if part.strip()]
        return MISSING if MISSING in parts else tuple(parts)
    elif hint in (int, float):
        return read_number(hint, text)
    elif hint in (str, Path):
        return hint(text)
    return words.get(text.lower(), MISSING)


def read_number(hint: type, text: str) -> Any:
    """A number; 2e3 is a whole one too."""
    try:
        value = float(text)
    except ValueError:
        return MISSING
    if hint is float:
        return value if math.isfinite(value) else MISSING
    try:
        return int(text)
    except ValueError:
        return int(value) if value.is_integer() else MISSING


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
