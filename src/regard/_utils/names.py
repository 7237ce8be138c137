"""Nearest names and the errors for unknown ones.

Names as people type them: a wrong one meets the known one that looks most like it.

Variants that a config chooses by name, so that it stays plain JSON.

Names as people type them.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that looks most like this one."""
    return get_close_matches(name, list(known), n=1, cutoff=0.0)[0]


def check_name(name: str, known: Iterable[str], what: str) -> None:
    """Refuse a name that is not among the known ones."""
    names = list(known)
    if name not in names:
        raise ValueError(
            f"there is no {what} {name!r}; the nearest is {nearest(name, names)!r}. Known: {', '.join(names)}."
        )


Variant = TypeVar("Variant")


def named(name: str, table: Mapping[str, Variant], what: str) -> Variant:
    """The entry of this name, or a sentence with those there are."""
    if name not in table:
        raise ValueError(
            f"{what} is {name!r}, expected one of {', '.join(table)}. Did you mean {nearest(name, table)!r}?"
        )
    return table[name]


def spoken(name: str) -> str:
    """A name of a table as the command line spells it."""
    return name.replace("_", "-")


def find_name(given: str, names: Iterable[str], what: str) -> str:
    """The name of a table that was meant; hyphens and underscores are one, and an unknown name meets the nearest."""
    known = {spoken(name): name for name in names}
    asked = spoken(given.strip().lower())
    check_name(asked, known, what)
    return known[asked]
