"""How the contract checks build any entry of a table: its required arguments are filled in by name."""

import inspect

import torch

from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import MASKS, causal, padding, prefix, window
from regard.attention.scores import SCORES
from regard.contracts import PositionInfo

BATCH, QUERIES, KEYS = 3, 5, 7
QUERY_SIZE, KEY_SIZE, VALUE_SIZE, HIDDEN_SIZE, NUM_HEADS = 8, 6, 4, 5, 2
LENGTHS = torch.tensor([KEYS, 4, 0])
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 5e-2}
DTYPES = list(TOLERANCE)

BY_NAME = {
    "query_size": QUERY_SIZE,
    "hidden_size": HIDDEN_SIZE,
    "max_length": KEYS + 3,
    "num_heads": NUM_HEADS,
}


def build(entry, **arguments):
    """One of the entry, with what it requires taken from `arguments` or the sizes above."""
    known = BY_NAME | arguments
    required = {
        name: known[name]
        for name, parameter in inspect.signature(entry.build).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return entry.build(**required)


def key_size(score_name):
    """Scores that name their sizes are given different ones."""
    named = inspect.signature(SCORES[score_name].build).parameters
    return KEY_SIZE if "key_size" in named or score_name == "location" else QUERY_SIZE


def make_score(name, dtype=torch.float64):
    torch.manual_seed(1)
    return build(SCORES[name], key_size=key_size(name)).to(dtype).eval()


def make_alignment(name, dtype=torch.float64):
    torch.manual_seed(2)
    return build(ALIGNMENTS[name]).to(dtype).eval()


MASK_ARGUMENTS = {"size": 2, "length": 3, "step": 2, "function": lambda i, j: (i + j) % 3 != 0}

# name -> the mask, given the lengths of the batch
MASK_CASES = {
    "none": lambda lengths: None,
    **{
        name: (lambda lengths, entry=entry: build(entry, lengths=lengths, **MASK_ARGUMENTS))
        for name, entry in MASKS.items()
    },
    "causal_and_padding": lambda lengths: causal() & padding(lengths),
    "not_window": lambda lengths: ~window(1),
    "causal_or_prefix": lambda lengths: causal() | prefix(3),
    "tensor": lambda lengths: torch.arange(QUERIES * KEYS, device=lengths.device).reshape(QUERIES, KEYS) % 4 != 1,
}


def make_mask(name, device="cpu"):
    return MASK_CASES[name](LENGTHS.to(device))


def inputs(score_name, dtype=torch.float64, *, seed=0, batch=BATCH, requires_grad=False):
    """Queries, keys and values that fit the score."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((QUERIES, QUERY_SIZE), (KEYS, key_size(score_name)), (KEYS, VALUE_SIZE))
    made = (torch.randn(batch, *size, generator=generator, dtype=torch.float64) for size in sizes)
    return tuple(tensor.to(dtype).requires_grad_(requires_grad) for tensor in made)


def position_info(num_queries=QUERIES):
    return PositionInfo(positions=torch.arange(num_queries))


def allowed(mask, batch=BATCH, queries=QUERIES, keys=KEYS):
    """The mask written out by a plain loop over its own rule, as (batch, queries, keys)."""
    from regard.attention.masks import as_mask
    from regard.attention.prepared import allowed_keys as write_out

    if mask is None:
        return torch.ones(batch, queries, keys, dtype=torch.bool)
    return write_out(as_mask(mask), torch.empty(batch, queries, keys), 0).expand(batch, queries, keys)
