"""Variants that a config chooses by name, so that it stays plain JSON."""

from collections.abc import Mapping
from typing import TypeVar

from regard.contracts import nearest

Variant = TypeVar("Variant")


def named(name: str, table: Mapping[str, Variant], what: str) -> Variant:
    """The entry of this name, or a sentence with those there are."""
    if name not in table:
        raise ValueError(
            f"{what} is {name!r}, expected one of {', '.join(table)}. Did you mean {nearest(name, table)!r}?"
        )
    return table[name]
