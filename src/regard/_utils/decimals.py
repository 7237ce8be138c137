"""Decimals of numbers: one rule for what is printed, the same as in the studio's page."""

from decimal import ROUND_HALF_UP, Decimal


def fixed(value: float, digits: int) -> str:
    """The number with fixed decimals, halves rounded away from zero; 0 has no sign.

    A format such as `.2f` rounds halves to even, so that 0.125 would be 0.12 here and 0.13 in a browser.
    """
    # exact: a float is a finite sum of powers of 2
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{abs(rounded) if rounded == 0 else rounded:f}"
