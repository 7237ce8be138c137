"""Dataclasses to JSON and back by their types, and typed `--set` overrides.

A field's annotation decides which values are valid: int, float, bool, str, Literal, tuple, None, another dataclass, or
one of several dataclasses, which is then tagged with its name (`{"kind": "Cosine", ..}`).

An override is `path=value`, such as `model.num_layers=6` or `training.optimizer.learning_rate=1e-3`. `num_` may be
left out of a name, and the value is parsed by the type of the setting.
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


def union_members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def dataclasses_of(hint: Any) -> dict[str, type]:
    """The dataclasses among the members of a type, by name."""
    members = union_members(hint)
    return {member.__name__: member for member in members if isinstance(member, type) and is_dataclass(member)}


def describe_type(hint: Any) -> str:
    """A type in words, for error messages."""
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list, each {describe_type(get_args(hint)[0])}"
    if len(union_members(hint)) > 1:
        return " or ".join(map(describe_type, union_members(hint)))
    return WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def to_plain(value: Any, hint: Any = Any) -> Any:
    """A dataclass as JSON values; numbers that JSON lacks become the strings "nan", "inf" and "-inf"."""
    if is_dataclass(value) and not isinstance(value, type):
        # annotations as types: a module with postponed evaluation has them as text
        hints = get_type_hints(type(value))
        plain = {field.name: to_plain(getattr(value, field.name), hints[field.name]) for field in fields(value)}
        # the tag is written only where the type is ambiguous, so a config without alternatives has no tags
        return {"kind": type(value).__name__, **plain} if len(dataclasses_of(hint)) > 1 else plain
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, Path) else value


def from_plain(hint: Any, plain: Any, where: str) -> Any:
    """The value of type `hint` that `to_plain` wrote; errors name the path of the invalid value below `where`."""
    if isinstance(plain, dict):
        return build(choose_class(hint, plain, where), plain, where)
    # in the order of the annotation: the first member that accepts the value decides
    for member in union_members(hint):
        if get_origin(member) is tuple and isinstance(plain, (list, tuple)):
            item = get_args(member)[0]
            return tuple(from_plain(item, value, f"{where}[{number}]") for number, value in enumerate(plain))
        if matches_type(member, plain):
            # float also turns the strings "nan" and "inf" back into numbers
            return member(plain) if member in (float, Path) else plain
    raise ValueError(f"{where} is {json.dumps(plain, default=repr)}, expected {describe_type(hint)}.")


def choose_class(hint: Any, plain: dict[str, Any], where: str) -> type:
    """The dataclass of a JSON object, by its tag if there are several."""
    classes = dataclasses_of(hint)
    if not classes:
        raise ValueError(f"{where} is an object, expected {describe_type(hint)}.")
    first = next(iter(classes.values()))
    if len(classes) == 1:
        return first
    if "kind" not in plain and set(plain) <= set(get_type_hints(first)):
        # a config from before there was a choice has no tag
        return first
    tag = plain.get("kind")
    if not isinstance(tag, str) or tag not in classes:
        raise ValueError(f"{where} has kind {tag!r}. Known: {', '.join(classes)}.")
    return classes[tag]


def build(cls: type, plain: dict[str, Any], where: str) -> Any:
    """An instance of a dataclass; unknown fields and missing ones without a default raise ValueError."""
    hints = get_type_hints(cls)
    # "kind" is the tag, unless the class has a field of that name
    values = {name: value for name, value in plain.items() if name != "kind" or "kind" in hints}
    for name in values:
        if name not in hints:
            raise ValueError(f"{where} has no {name!r}; the nearest is {nearest(name, hints)!r}.")
    for field in fields(cls):
        if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where} has no {field.name}, and needs one.")
    return cls(**{name: from_plain(hints[name], value, f"{where}.{name}") for name, value in values.items()})


def matches_type(hint: Any, plain: Any) -> bool:
    """True if a JSON value is valid for a type; an int is valid for float, and a bool is not valid for int."""
    if get_origin(hint) is Literal:
        return plain in get_args(hint)
    if hint is float:
        # bool is a subclass of int, so True would be accepted as 1
        return plain in NOT_FINITE or (isinstance(plain, (int, float)) and not isinstance(plain, bool))
    if hint is int:
        return isinstance(plain, int) and not isinstance(plain, bool)
    if hint is Path:
        return isinstance(plain, str)
    return hint is Any or (isinstance(hint, type) and isinstance(plain, hint))


def from_text(hint: Any, text: str, where: str) -> Any:
    """Parse the text of a `--set` override by the type of the setting."""
    # str accepts every text, so it is tried last
    for member in sorted(union_members(hint), key=lambda member: member is str):
        value = parse_text(member, text.strip())
        if value is not MISSING:
            return value
    raise ValueError(f"{where} is {describe_type(hint)}, and {text!r} is not.")


def parse_text(hint: Any, text: str) -> Any:
    """The value of one type, or MISSING if the text is not valid for it."""
    words: dict[str, Any] = {}
    if hint is bool:
        words = {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}
    elif hint is NoneType:
        words = {"none": None, "null": None}
    elif is_dataclass(hint) and isinstance(hint, type):
        # AdamSettings, adam_settings or adam
        words = dict.fromkeys((hint.__name__.lower(), hint.__name__.lower().removesuffix("settings")), hint)
        cls = words.get(text.replace("_", "").lower(), MISSING)
        return cls if cls is MISSING else cls()
    elif get_origin(hint) is Literal:
        words = {str(value).lower(): value for value in get_args(hint)}
    elif get_origin(hint) is tuple:
        parts = [parse_text(get_args(hint)[0], part.strip()) for part in text.split(",") if part.strip()]
        # MISSING and not None, because None is a valid value
        return MISSING if MISSING in parts else tuple(parts)
    elif hint in (int, float):
        return parse_number(hint, text)
    elif hint in (str, Path):
        return hint(text)
    return words.get(text.lower(), MISSING)


def parse_number(hint: type, text: str) -> Any:
    """An int or a finite float, or MISSING; 2e3 is a valid int."""
    try:
        value = float(text)
    except ValueError:
        return MISSING
    # `float` also accepts "nan" and "inf", which are no useful settings
    if hint is float:
        return value if math.isfinite(value) else MISSING
    # int first: a float would round numbers beyond 2^53
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
"""Settings that `--set` cannot change, and why."""


def override(settings: Settings, *assignments: str) -> Settings:
    """A copy of the settings with overrides applied, each `key=value`."""
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{assignment!r} sets nothing. Write key=value, such as model.num_layers=6.")
        settings = set_value(settings, key.strip().split("."), text, key.strip())
    return settings


def set_value(settings: Any, path: list[str], text: str, key: str) -> Any:
    """A copy of the settings with the value at the end of the path replaced."""
    name = find_field(settings, path[0], key)
    # by name, or by path where another field of that name may be set (tokenizer.vocab_size)
    if reason := FIXED.get(name) or FIXED.get(key):
        raise ValueError(f"{key} cannot be set: {reason}.")
    hint = get_type_hints(type(settings))[name]
    inner = getattr(settings, name)
    if len(path) > 1:
        if not is_dataclass(inner):
            raise ValueError(f"there is no setting {key!r}: {name} is {inner!r} and has no settings of its own.")
        # `replace` runs `__post_init__` again at every level, so an invalid combination raises here
        return replace(settings, **{name: set_value(inner, path[1:], text, key)})
    if is_dataclass(inner) and len(dataclasses_of(hint)) <= 1:
        within = ", ".join(f"{key}.{field.name}" for field in fields(inner))
        raise ValueError(f"{key} is a group of settings. Set one of them: {within}.")
    return replace(settings, **{name: from_text(hint, text, key)})


def find_field(settings: Any, name: str, key: str) -> str:
    """The field of this name; `layers` also finds `num_layers`."""
    names = [field.name for field in fields(settings)]
    for candidate in (name.replace("-", "_"), f"num_{name.replace('-', '_')}"):
        if candidate in names:
            return candidate
    near = nearest(name, names)
    start = key.split(".")[: key.split(".").index(name)]
    settable = ", ".join(field_name for field_name in names if field_name not in FIXED)
    raise ValueError(f"there is no setting {key!r}; the nearest is {'.'.join([*start, near])!r}. Known: {settable}.")
