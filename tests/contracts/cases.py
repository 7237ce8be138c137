"""Cases of regard.testing for the entries of the tables of attention."""

from functools import cache

import torch

from regard.testing.attention import alignment_case
from regard.testing.cases import (
    BATCH_SIZE,
    DTYPES,
    MASK_CASES,
    NUM_KEYS,
    NUM_QUERIES,
    TOLERANCE,
    build_alignment,
    build_entry,
    build_score,
    cast,
    key_size_of,
    make_mask,
    position_info,
    write_out,
)
from regard.testing.cases import LENGTHS as LENGTHS_OF_BATCH

__all__ = [
    "DTYPES",
    "LENGTHS",
    "MASK_CASES",
    "TOLERANCE",
    "allowed",
    "build",
    "inputs",
    "make_alignment",
    "position_info",
]
__all__ += ["make_case", "make_mask", "make_score"]

LENGTHS = torch.tensor(LENGTHS_OF_BATCH)
build = build_entry


def make_score(name, dtype=torch.float64):
    return cast(build_score(name), dtype)


def make_alignment(name, dtype=torch.float64):
    return cast(build_alignment(name), dtype)


@cache
def make_case(score_name, align_name):
    """One entry with another; its copies in each precision are cached."""
    score = build_score(score_name)
    return alignment_case(score, align_name, query_size=8, key_size=key_size_of(score_name))


def inputs(score_name, dtype=torch.float64):
    """Queries, keys and values that fit the score."""
    return make_case(score_name, "softmax").inputs(dtype)


def allowed(mask, batch=BATCH_SIZE, queries=NUM_QUERIES, keys=NUM_KEYS):
    """The mask as a boolean tensor (batch, queries, keys)."""
    return write_out(mask, batch, queries, keys)
