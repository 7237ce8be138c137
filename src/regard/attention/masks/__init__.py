"""Masks, in history order. True = may attend; masks compose with &, | and ~."""

from regard.attention.masks.algebra import ComposableMask, TensorMask, as_mask
from regard.attention.masks.causal import causal, prefix
from regard.attention.masks.padding import KeyMask, padding
from regard.attention.masks.predicate import Predicate, predicate
from regard.attention.masks.window import dilated, window
from regard.contracts import MechanismEntry

MASKS = {
    "padding": MechanismEntry(
        build=padding, year=2014, formula="j < lengths[b]", cost="O(K)", paper="https://arxiv.org/abs/1409.0473"
    ),
    "window": MechanismEntry(
        build=window, year=2015, formula="|i - j| <= size", cost="O(Q size)", paper="https://arxiv.org/abs/1508.04025"
    ),
    "causal": MechanismEntry(
        build=causal, year=2017, formula="j <= i", cost="O(Q K / 2)", paper="https://arxiv.org/abs/1706.03762"
    ),
    "prefix": MechanismEntry(
        build=prefix, year=2019, formula="j < length", cost="O(Q length)", paper="https://arxiv.org/abs/1910.10683"
    ),
    "dilated": MechanismEntry(
        build=dilated,
        year=2020,
        formula="|i - j| <= size step, step divides i - j",
        cost="O(Q size step)",
        paper="https://arxiv.org/abs/2004.05150",
    ),
    "predicate": MechanismEntry(
        build=predicate, year=2024, formula="f(i, j)", cost="O(Q K)", paper="https://arxiv.org/abs/2412.05496"
    ),
}

__all__ = [
    "MASKS",
    "ComposableMask",
    "KeyMask",
    "Predicate",
    "TensorMask",
    "as_mask",
    "causal",
    "dilated",
    "padding",
    "predicate",
    "prefix",
    "window",
]
