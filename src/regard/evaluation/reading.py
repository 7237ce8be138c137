"""A report as JSON and back: frozen dataclasses of plain values, read as their annotations say."""

import dataclasses
import json
import math
import types
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.contracts import nearest

Kind = TypeVar("Kind")


def write_report(report: Any) -> str:
    """Readable JSON, keys in the order of the fields; numbers that JSON lacks are words: "nan", "inf"."""
    return json.dumps(_plain(dataclasses.asdict(report)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_report(kind: type[Kind], text: str) -> Kind:
    """The report that was written; a key too many, too few or of another kind is named."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is no report, for it is no JSON: {error}. Evaluate the system again.") from None
    report: Kind = _read(kind, values, "report")
    return report


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _read(kind: Any, value: Any, place: str) -> Any:
    """The value as the annotation `kind` says."""
    if get_origin(kind) in (Union, types.UnionType):
        return None if value is None else _read(get_args(kind)[0], value, place)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _read_fields(kind, value, place)
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_read(get_args(kind)[0], inner, f"{place}[{i}]") for i, inner in enumerate(value))
    if kind is float and (value in ("nan", "inf", "-inf") or type(value) in (int, float)):
        return float(value)
    if kind in (int, str) and type(value) is kind:
        return value
    name = getattr(kind, "__name__", str(kind))
    raise ValueError(f"{place} is {json.dumps(value)}, expected {name}. Evaluate the system again.")


def _read_fields(kind: Any, values: dict[str, Any], place: str) -> Any:
    """A dataclass from its fields by name."""
    kinds = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    for name in values:
        if name not in names:
            raise ValueError(f"{place} has no field {name!r}. The nearest is {nearest(name, names)!r}.")
    missing = [name for name in names if name not in values]
    if missing:
        raise ValueError(f"{place} lacks {', '.join(missing)}. Evaluate the system again.")
    return kind(**{name: _read(kinds[name], values[name], f"{place}.{name}") for name in names})
