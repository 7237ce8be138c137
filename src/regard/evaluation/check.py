"""Hypotheses and references come in pairs."""

from collections.abc import Sequence


def check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse lists that are empty, of unequal length, or no lists at all."""
    for name, given in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(given, str):
            raise ValueError(f"{name} is one string, expected a list of sentences. Write [{name}].")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypotheses but {len(references)} references. Give one reference for each."
        )
    if not hypotheses:
        raise ValueError("there is nothing to evaluate: no hypotheses and no references. Give at least one of each.")
