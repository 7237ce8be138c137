"""Look-up by name, with errors that suggest the nearest known name."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar


def nearest(name: str, names: Iterable[str]) -> str:
    """The known name with the most similar spelling."""
    return get_close_matches(name, list(names), n=1, cutoff=0.0)[0]


def check_name(name: str, choices: Iterable[str], what: str) -> None:
    """Raise ValueError for an unknown name."""
    names = list(choices)
    if name not in names:
        raise ValueError(
            f"there is no {what} {name!r}; the nearest is {nearest(name, names)!r}. Known: {', '.join(names)}."
        )


Variant = TypeVar("Variant")


def find_variant(name: str, table: Mapping[str, Variant], what: str) -> Variant:
    """The entry of a table of variants, which a config selects by name so that it stays plain JSON."""
    if name not in table:
        raise ValueError(
            f"{what} is {name!r}, expected one of {', '.join(table)}. Did you mean {nearest(name, table)!r}?"
        )
    return table[name]


def hyphenated(name: str) -> str:
    """A table's name as the command line spells it: hyphens instead of underscores."""
    return name.replace("_", "-")


def find_name(name: str, names: Iterable[str], what: str) -> str:
    """The entry of `names` that equals `name` up to case, surrounding spaces, hyphens and underscores."""
    spellings = {hyphenated(entry): entry for entry in names}
    spelling = hyphenated(name.strip().lower())
    check_name(spelling, spellings, what)
    return spellings[spelling]
