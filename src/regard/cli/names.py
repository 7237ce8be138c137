"""Names as people type them."""

from collections.abc import Iterable
from difflib import get_close_matches


def spoken(name: str) -> str:
    """A name of a table as the command line spells it."""
    return name.replace("_", "-")


def find_name(given: str, names: Iterable[str], what: str) -> str:
    """The name of a table that was meant; hyphens and underscores are one, and an unknown name meets the nearest."""
    known = {spoken(name): name for name in names}
    asked = spoken(given.strip().lower())
    if asked in known:
        return known[asked]
    near = get_close_matches(asked, known, n=1, cutoff=0.0)[0]
    raise ValueError(f"there is no {what} {given!r}; the nearest is {near!r}. Known: {', '.join(known)}.")
