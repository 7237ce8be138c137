"""The formulas of attention in plain torch, in the precision of the inputs: the reference of the tests."""

import math

import torch


def weight(module, name, dtype):
    return dict(module.named_parameters())[name].detach().to(dtype)


def plain_scores(name, score, queries, keys):
    """The formula of each score of the table, written a second time, on unprepared keys."""
    dtype = queries.dtype
    pairs = queries.unsqueeze(-2), keys.unsqueeze(-3)
    if name in ("dot", "scaled_dot"):
        scores = queries @ keys.transpose(-2, -1)
        return scores / math.sqrt(queries.shape[-1]) if name == "scaled_dot" else scores
    if name == "cosine":
        norms = queries.norm(dim=-1)[..., :, None] * keys.norm(dim=-1)[..., None, :]
        return queries @ keys.transpose(-2, -1) / norms
    if name == "gaussian":
        return -((pairs[0] - pairs[1]) * weight(score, "width", dtype)).square().sum(-1) / 2
    if name == "additive":
        hidden = (
            pairs[0] @ weight(score, "query_proj.weight", dtype).T
            + pairs[1] @ weight(score, "key_proj.weight", dtype).T
        )
        return torch.tanh(hidden) @ weight(score, "energy", dtype)
    if name == "concat":
        both = torch.cat(torch.broadcast_tensors(*(side for side in expanded(*pairs))), dim=-1)
        return torch.tanh(both @ weight(score, "proj.weight", dtype).T) @ weight(score, "energy", dtype)
    if name == "location":
        return (queries @ weight(score, "position_proj.weight", dtype).T)[..., : keys.shape[-2]]
    scores = queries @ weight(score, "query_proj.weight", dtype).T
    if name == "biased_general":
        scores = scores + weight(score, "query_proj.bias", dtype)
    scores = scores @ keys.transpose(-2, -1)
    if name == "activated_general":
        return torch.tanh(scores + weight(score, "bias", dtype))
    assert name in ("general", "biased_general"), f"write the formula of {name} here"
    return scores


def expanded(left, right):
    shape = torch.broadcast_shapes(left.shape[:-1], right.shape[:-1])
    return left.expand(*shape, left.shape[-1]), right.expand(*shape, right.shape[-1])


def plain_softmax(scores, mask=None):
    """exp over sum of exps, zeros where nothing is allowed."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    mask = mask.expand(scores.shape)
    some = mask.any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~mask & some, float("-inf")), dim=-1)
    return weights * some


def relative_error(actual, exact):
    """The relative error."""
    exact = exact.double()
    return ((actual.double() - exact).norm() / exact.norm().clamp_min(1e-30)).item()
