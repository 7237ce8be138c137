"""Requests for additive kernels, and the formula's results for them, on any device and in any precision."""

from dataclasses import replace

import torch

from regard.kernels.additive.reference import FlatRequest

NAMES = ("context", "lse", "queries", "keys", "energy", "values")
SIDES = NAMES[2:]


def make(shape=(2, 17, 33, 32, 16), *, scale=1.0, shift=0.0, dtype=torch.float32, mask=None, device="cpu"):
    """A request of (batch, queries, keys, hidden, values); queries are centred at `shift`, keys at -shift."""
    batch, num_queries, num_keys, hidden, value = shape
    torch.manual_seed(0)
    tensors = {
        "queries": scale * torch.randn(batch, num_queries, hidden) + shift,
        "keys": scale * torch.randn(batch, num_keys, hidden) - shift,
        "energy": torch.randn(hidden) * hidden**-0.5,
        "values": torch.randn(batch, num_keys, value),
    }
    request = FlatRequest(**{name: tensor.to(device, dtype) for name, tensor in tensors.items()})
    return request if mask is None else MASKS[mask](request)


def causal(request):
    places = torch.arange(1, request.queries.shape[1] + 1, dtype=torch.int32, device=request.queries.device)
    return replace(request, high=places[None])


def window(request):
    places = torch.arange(request.queries.shape[1], dtype=torch.int32, device=request.queries.device)
    return replace(request, low=(places - 3).clamp(min=0)[None], high=(places + 4)[None])


def padded(request):
    """Random keys masked, and all of the first batch element; masked keys and values are NaN."""
    key_mask = torch.rand(request.keys.shape[:2]) < 0.7
    key_mask[0] = False
    key_mask = key_mask.to(request.keys.device)
    poisoned = {
        name: getattr(request, name).masked_fill(~key_mask[..., None], torch.nan) for name in ("keys", "values")
    }
    return replace(request, key_mask=key_mask, **poisoned)


def pair_mask(request):
    """Random pairs masked, others for each batch element."""
    pairs = torch.rand(request.queries.shape[0], request.queries.shape[1], request.keys.shape[1]) < 0.6
    pairs[:, 0] = False
    return replace(request, pair_mask=pairs.to(request.queries.device))


def shared(request):
    """The same masked pairs for the whole batch."""
    return replace(request, pair_mask=pair_mask(request).pair_mask[:1])


MASKS = {
    "causal": causal, "window": window, "padded": padded, "padded window": lambda request: padded(window(request)),
    "written": pair_mask, "shared": shared, "everything": lambda request: padded(window(pair_mask(request))),
}  # fmt: skip


def allowed(request):
    places = torch.arange(request.keys.shape[1], device=request.keys.device)
    mask = torch.ones(*request.queries.shape[:2], len(places), dtype=torch.bool, device=places.device)
    if request.low is not None:
        mask = mask & (places >= request.low[..., None])
    if request.high is not None:
        mask = mask & (places < request.high[..., None])
    if request.pair_mask is not None:
        mask = mask & request.pair_mask
    return mask if request.key_mask is None else mask & request.key_mask[:, None]


def gradient(request):
    shape = (*request.queries.shape[:2], request.values.shape[2])
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(request.values)


def formula(request, dtype=torch.float64):
    """Context, log-sum-exp and all gradients by autograd in this precision."""
    sides = [getattr(request, name).detach().clone().to(dtype) for name in SIDES]
    if request.key_mask is not None:
        for index in (1, 3):
            sides[index] = sides[index].masked_fill(~request.key_mask.expand(request.keys.shape[:2])[..., None], 0)
    queries, keys, energy, values = (side.requires_grad_() for side in sides)
    scores = torch.tanh(queries[:, :, None] + keys[:, None]) @ energy
    scores = scores.masked_fill(~allowed(request), -torch.inf)
    lse = scores.logsumexp(-1)
    context = torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0)[..., None]) @ values
    actual = torch.autograd.grad(context, (queries, keys, energy, values), gradient(request).to(dtype))
    return [tensor.detach() for tensor in (context, lse, *actual)]


def run_path(path, request):
    context, lse = path(request).forward()
    return [context, lse, *path(request).backward(context, lse, gradient(request))]


def error(actual, truth):
    """The relative error in the norm where the reference is not 0 (as with one key); infinities must be equal."""
    actual, truth = actual.detach().double(), truth.detach().double()
    assert torch.equal(actual == -torch.inf, truth == -torch.inf)
    off = torch.where(actual == truth, 0.0, actual - truth)
    size = float(truth[truth.isfinite()].norm())
    return float(off.norm()) / (size if size > 1e-12 else 1.0)


def errors(actual, truth):
    return {name: error(*pair) for name, pair in zip(NAMES, zip(actual, truth, strict=True), strict=True)}
