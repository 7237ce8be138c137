"""Names as people type them."""

from collections.abc import Iterable

from regard.contracts import check_name


def spoken(name: str) -> str:
    """A name of a table as the command line spells it."""
    return name.replace("_", "-")


def find_name(given: str, names: Iterable[str], what: str) -> str:
    """The name of a table that was meant; hyphens and underscores are one, and an unknown name meets the nearest."""
    known = {spoken(name): name for name in names}
    asked = spoken(given.strip().lower())
    check_name(asked, known, what)
    return known[asked]
