"""Additive reads to hold kernels to, and what the formula makes of them: any device, any precision."""

from dataclasses import replace

import torch

from regard.kernels.additive.reference import Rows

NAMES = ("context", "lse", "queries", "keys", "energy", "values")
SIDES = NAMES[2:]


def make(shape=(2, 17, 33, 32, 16), *, scale=1.0, shift=0.0, dtype=torch.float32, mask=None, device="cpu"):
    """Rows of (batch, queries, keys, hidden, values); queries lie around `shift`, keys around -shift."""
    batch, num_queries, num_keys, hidden, value = shape
    torch.manual_seed(0)
    given = {
        "queries": scale * torch.randn(batch, num_queries, hidden) + shift,
        "keys": scale * torch.randn(batch, num_keys, hidden) - shift,
        "energy": torch.randn(hidden) * hidden**-0.5,
        "values": torch.randn(batch, num_keys, value),
    }
    rows = Rows(**{name: tensor.to(device, dtype) for name, tensor in given.items()})
    return rows if mask is None else MASKS[mask](rows)


def causal(rows):
    places = torch.arange(1, rows.queries.shape[1] + 1, dtype=torch.int32, device=rows.queries.device)
    return replace(rows, high=places[None])


def window(rows):
    places = torch.arange(rows.queries.shape[1], dtype=torch.int32, device=rows.queries.device)
    return replace(rows, low=(places - 3).clamp(min=0)[None], high=(places + 4)[None])


def padded(rows):
    """Keys missing anywhere, the first row empty; what is missing is not a number."""
    real = torch.rand(rows.keys.shape[:2]) < 0.7
    real[0] = False
    real = real.to(rows.keys.device)
    poisoned = {name: getattr(rows, name).masked_fill(~real[..., None], torch.nan) for name in ("keys", "values")}
    return replace(rows, real=real, **poisoned)


def written(rows):
    """Pairs forbidden at random, for each row its own."""
    pairs = torch.rand(rows.queries.shape[0], rows.queries.shape[1], rows.keys.shape[1]) < 0.6
    pairs[:, 0] = False
    return replace(rows, written=pairs.to(rows.queries.device))


def shared(rows):
    """The same forbidden pairs for all rows."""
    return replace(rows, written=written(rows).written[:1])


MASKS = {
    "causal": causal, "window": window, "padded": padded, "padded window": lambda rows: padded(window(rows)),
    "written": written, "shared": shared, "everything": lambda rows: padded(window(written(rows))),
}  # fmt: skip


def allowed(rows):
    places = torch.arange(rows.keys.shape[1], device=rows.keys.device)
    found = torch.ones(*rows.queries.shape[:2], len(places), dtype=torch.bool, device=places.device)
    if rows.low is not None:
        found = found & (places >= rows.low[..., None])
    if rows.high is not None:
        found = found & (places < rows.high[..., None])
    if rows.written is not None:
        found = found & rows.written
    return found if rows.real is None else found & rows.real[:, None]


def gradient(rows):
    shape = (*rows.queries.shape[:2], rows.values.shape[2])
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(rows.values)


def formula(rows, dtype=torch.float64):
    """Context, log-sum-exp and all gradients as autograd finds them in this precision."""
    sides = [getattr(rows, name).detach().clone().to(dtype) for name in SIDES]
    if rows.real is not None:
        for index in (1, 3):
            sides[index] = sides[index].masked_fill(~rows.real.expand(rows.keys.shape[:2])[..., None], 0)
    queries, keys, energy, values = (side.requires_grad_() for side in sides)
    scores = torch.tanh(queries[:, :, None] + keys[:, None]) @ energy
    scores = scores.masked_fill(~allowed(rows), -torch.inf)
    lse = scores.logsumexp(-1)
    context = torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0)[..., None]) @ values
    found = torch.autograd.grad(context, (queries, keys, energy, values), gradient(rows).to(dtype))
    return [tensor.detach() for tensor in (context, lse, *found)]


def by_walk(walk, rows):
    context, lse = walk(rows).forward()
    return [context, lse, *walk(rows).backward(context, lse, gradient(rows))]


def error(found, truth):
    """Relative, in the norm, where the truth is not 0 (as with a single key); infinities must be the same."""
    found, truth = found.detach().double(), truth.detach().double()
    assert torch.equal(found == -torch.inf, truth == -torch.inf)
    off = torch.where(found == truth, 0.0, found - truth)
    size = float(truth[truth.isfinite()].norm())
    return float(off.norm()) / (size if size > 1e-12 else 1.0)


def errors(found, truth):
    return {name: error(*pair) for name, pair in zip(NAMES, zip(found, truth, strict=True), strict=True)}
