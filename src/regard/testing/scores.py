"""Checks of a score alone: its members, and its lowering against its definition."""

import torch
from torch import Tensor

from regard.contracts import Lowered, LoweredSquare, LoweredSum, Score
from regard.testing.cases import NUM_KEYS, NUM_QUERIES, AttentionCase, cast
from regard.testing.comparison import assert_close, name_of


def check_score_protocol(case: AttentionCase) -> None:
    """The object has `prepare`, `lower` and a call, and scores every query against every key."""
    name = name_of(case.score)
    absent = [member for member in ("prepare", "lower", "__call__") if not hasattr(case.score, member)]
    assert not absent, f"{name} is no Score: it has no {', '.join(absent)}."
    assert isinstance(case.score, Score), f"{name} is no Score."
    queries, keys, _ = case.inputs()
    score = case.parts(torch.float64)["score"]
    # no leading dimension, one, and two
    for leading in ((), (2,), (2, 3)):
        shape = tuple(score(queries[0].expand(*leading, *queries.shape[1:]), prepare(score, keys[0], leading)).shape)
        expected = (*leading, NUM_QUERIES, NUM_KEYS)
        assert shape == expected, f"{name}: the scores have shape {shape}, expected {expected}."


def prepare(score: Score, keys: Tensor, leading: tuple[int, ...]) -> Tensor:
    """Prepared keys with these leading dimensions."""
    return score.prepare(keys.expand(*leading, *keys.shape))


def check_lowering(case: AttentionCase) -> None:
    """The scores of `lower`, multiplied out, are those of `forward`; or `lower` returns a sentence."""
    name, score = name_of(case.score), cast(case.score, torch.float64)
    queries, keys, _ = case.inputs()
    prepared = score.prepare(keys)
    lowered, scores = score.lower(queries, prepared), score(queries, prepared)
    if isinstance(lowered, str):
        assert lowered.strip(), f"{name}: lower returns an empty text, expected the reason why there is no lowering."
        return
    lowerings = (Lowered, LoweredSum, LoweredSquare)
    assert isinstance(lowered, lowerings), (
        f"{name}: lower returns a {type(lowered).__name__}, not a lowering or a text."
    )
    actual = multiply_out(lowered).expand(scores.shape)
    if isinstance(lowered, Lowered) and lowered.drops_row_constant:
        # a constant per query may be missing, so only differences between keys are compared
        actual, scores = (tensor - tensor[..., :1] for tensor in (actual, scores))
    assert_close(actual, scores, 1e-10, f"{name}: the scores of lower are those of forward")


def multiply_out(lowered: Lowered | LoweredSum | LoweredSquare) -> Tensor:
    """The scores of a lowering, by its formula."""
    # (.., queries, 1, size) and (.., 1, keys, size)
    queries, keys = lowered.queries.unsqueeze(-2), lowered.keys.unsqueeze(-3)
    if isinstance(lowered, LoweredSum):
        return torch.tanh(queries + keys) @ lowered.energy
    if isinstance(lowered, LoweredSquare):
        return -((queries - keys) * lowered.width).square().sum(-1) / 2
    scores = lowered.scale * (lowered.queries @ lowered.keys.transpose(-2, -1))
    if lowered.key_bias is not None:
        # (.., 1, keys): the same for every query
        scores = scores + lowered.key_bias.unsqueeze(-2)
    return scores if lowered.bias is None else scores + lowered.bias


def check_prepared_keys(case: AttentionCase) -> None:
    """`prepare` treats every key alone, so that keys may be prepared piece by piece."""
    score = case.parts(torch.float64)["score"]
    keys = case.inputs()[1]
    pieces = torch.cat([score.prepare(keys[:, :3]), score.prepare(keys[:, 3:])], dim=1)
    claim = f"{name_of(case.score)}: keys prepared in pieces are those prepared at once"
    assert_close(pieces, score.prepare(keys), 1e-10, claim)


SCORE_CHECKS = (check_score_protocol, check_lowering, check_prepared_keys)
"""Checks of a score without an alignment."""
