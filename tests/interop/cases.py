"""Arguments of torch.nn.MultiheadAttention as axes: construction, inputs, outputs and masks."""

import itertools
from dataclasses import dataclass

import torch
from torch import nn

from regard.interop import MultiheadAttention

BATCH, QUERIES, KEYS, EMBED, HEADS, KDIM, VDIM = 2, 3, 4, 8, 2, 6, 5

FLAGS = [
    dict(zip(("bias", "add_bias_kv", "add_zero_attn"), chosen, strict=True))
    for chosen in itertools.product((True, False), repeat=3)
]
PLAIN = {"bias": True, "add_bias_kv": False, "add_zero_attn": False}
SOURCES = {
    "self": {},
    "memory": {},
    "separate": {},
    "kdim": {"kdim": KDIM},
    "vdim": {"vdim": VDIM},
    "kdim-vdim": {"kdim": KDIM, "vdim": VDIM},
}
"""Where keys and values come from: the query itself, one other tensor, or two, of whatever sizes."""
LAYOUTS = ("batch-first", "length-first", "unbatched")
ASKS = (
    {"need_weights": False},
    {"need_weights": True, "average_attn_weights": True},
    {"need_weights": True, "average_attn_weights": False},
)
ATTN_MASKS = ("none", "bool-2d", "bool-3d", "float-2d", "float-3d")
PADDINGS = ("none", "bool", "float")
HINTED = ("hinted-bool", "hinted-float")
"""The causal mask with is_causal=True."""
MASKS = [*itertools.product(ATTN_MASKS, PADDINGS), *itertools.product(HINTED, PADDINGS)]
EMPTY_MASKS = ("bool-2d", "float-2d", "bool-3d", "float-3d", "padding-bool", "padding-float", "together", "mixed")
"""Masks that leave some query without a key: alone, in one head, in one row of the batch, or only together."""


@dataclass(frozen=True)
class Case:
    """One way to build the module, and the tensors of one call."""

    build: dict
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    layout: str

    @property
    def extra_keys(self):
        return self.build["add_bias_kv"] + self.build["add_zero_attn"]


def make_case(source, layout, flags):
    """float64 inputs; equal ones are one tensor, because torch compares identities."""
    build = {"batch_first": layout != "length-first", **SOURCES[source], **flags}

    def states(length, size):
        shape = {"batch-first": (BATCH, length), "length-first": (length, BATCH), "unbatched": (length,)}[layout]
        return torch.randn(*shape, size, dtype=torch.float64)

    query = states(QUERIES, EMBED)
    key = query if source == "self" else states(KEYS, build.get("kdim", EMBED))
    value = key if source in ("self", "memory") else states(KEYS, build.get("vdim", EMBED))
    return Case(build, query, key, value, layout)


def make_pair(build, dtype=torch.float64, **more):
    """torch's module and ours with the same parameters, none of them zero."""
    theirs = nn.MultiheadAttention(EMBED, HEADS, dtype=dtype, **build, **more)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    ours = MultiheadAttention(EMBED, HEADS, dtype=dtype, **build, **more)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def make_masks(case, attn_kind, padding_kind):
    """The masks of a call; the first key is allowed for every query, so that no row is empty."""
    batch = () if case.layout == "unbatched" else (BATCH,)
    num_keys = QUERIES if case.key is case.query else KEYS
    rows = HEADS * (BATCH if batch else 1)
    shape = (rows, QUERIES, num_keys) if attn_kind.endswith("3d") else (QUERIES, num_keys)
    masks = {}
    if attn_kind in HINTED:
        triangle = torch.ones(shape, dtype=torch.bool).triu(1)
        masks["attn_mask"] = triangle if attn_kind == "hinted-bool" else added(triangle, scale=0.0)
        masks["is_causal"] = True
    elif attn_kind != "none":
        masks["attn_mask"] = forbidden(shape) if attn_kind.startswith("bool") else added(forbidden(shape))
    if padding_kind != "none":
        padding = forbidden((*batch, num_keys))
        masks["key_padding_mask"] = padding if padding_kind == "bool" else added(padding)
    return masks


def make_empty_masks(case, kind):
    """Masks under which the second query, in one head or in all of them, has no allowed key."""
    batch = () if case.layout == "unbatched" else (BATCH,)
    num_keys = QUERIES if case.key is case.query else KEYS
    attn = forbidden((QUERIES, num_keys))
    padding = forbidden((*batch, num_keys))
    if kind.startswith("padding"):
        padding[-1 if batch else ...] = True
        return {"key_padding_mask": padding if kind == "padding-bool" else added(padding)}
    if kind in ("together", "mixed"):
        padding[..., -1] = True
        attn[1] = True
        attn[1, -1] = False
        return {"attn_mask": attn, "key_padding_mask": padding if kind == "together" else added(padding)}
    if kind.endswith("3d"):
        attn = forbidden((HEADS * (BATCH if batch else 1), QUERIES, num_keys))
        attn[1, 1] = True
    else:
        attn[1] = True
    return {"attn_mask": attn if kind.startswith("bool") else added(attn)}


def forbidden(shape):
    places = torch.rand(shape) < 0.4
    places[..., 0] = False
    return places


def added(places, scale=1.0):
    return (torch.randn(places.shape, dtype=torch.float64) * scale).masked_fill(places, float("-inf"))


def in_dtype(masks, dtype):
    return {
        name: mask.to(dtype) if isinstance(mask, torch.Tensor) and mask.is_floating_point() else mask
        for name, mask in masks.items()
    }
