"""Variants that a config chooses by name, so that it stays plain JSON."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

Variant = TypeVar("Variant")


def named(name: str, table: Mapping[str, Variant], what: str) -> Variant:
    """The entry of this name, or a sentence with those there are."""
    if name not in table:
        near = difflib.get_close_matches(name, table, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{what} is {name!r}, expected one of {', '.join(table)}.{hint}")
    return table[name]
