"""Names as people type them: a wrong one meets the known one that looks most like it."""

from collections.abc import Iterable
from difflib import get_close_matches


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
