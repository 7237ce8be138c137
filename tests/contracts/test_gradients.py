"""Gradients of every score with every alignment, in float64; sampled and straight-through forms state their own."""

import pytest
import torch
from torch.autograd import gradcheck

from regard import attend
from regard.attention import which_backend
from regard.attention.alignments import ALIGNMENTS, Argmax, Gumbel, Hard, Sampled
from regard.attention.masks import causal, padding
from regard.attention.scores import SCORES
from tests.contracts.cases import BATCH, KEYS, LENGTHS, QUERIES, inputs, make_alignment, make_score, position_info

LOWERED = [name for name in SCORES if name not in ("additive", "concat", "activated_general")]
SMOOTH = [name for name in ALIGNMENTS if not name.startswith("hard")]


@pytest.mark.parametrize("align_name", SMOOTH)
@pytest.mark.parametrize("score_name", SCORES)
def test_formed_path_passes_gradcheck(score_name, align_name):
    score, align = make_score(score_name), make_alignment(align_name)
    tensors = inputs(score_name, requires_grad=True)

    def context(*tensors):
        return attend(
            *tensors,
            score=score,
            align=align,
            mask=causal() & padding(LENGTHS),
            position_info=position_info(),
            return_weights=True,
        ).context

    assert gradcheck(context, tensors, fast_mode=True)


@pytest.mark.parametrize("score_name", LOWERED)
def test_fused_path_passes_gradcheck(score_name):
    score = make_score(score_name)
    tensors = inputs(score_name, requires_grad=True)
    assert which_backend(*tensors, score=score, mask=causal() & padding(LENGTHS)).backend == "sdpa"

    def context(*tensors):
        return attend(*tensors, score=score, mask=causal() & padding(LENGTHS)).context

    assert gradcheck(context, tensors, fast_mode=True)


def scores_needing_gradient():
    return torch.randn(BATCH, QUERIES, KEYS, dtype=torch.float64, requires_grad=True)


def test_argmax_gives_scores_no_gradient():
    scores = scores_needing_gradient()
    assert not Hard(Argmax())(scores).weights.requires_grad


def test_gumbel_is_hard_forward_and_soft_backward():
    scores = scores_needing_gradient()
    aligned = Hard(Gumbel(temperature=0.7)).eval()(scores)
    assert aligned.weights.allclose(torch.nn.functional.one_hot(scores.argmax(-1), KEYS).double())
    wanted = torch.randn(BATCH, QUERIES, KEYS, dtype=torch.float64)
    (found,) = torch.autograd.grad((aligned.weights * wanted).sum(), scores)
    (soft,) = torch.autograd.grad((torch.softmax(scores / 0.7, -1) * wanted).sum(), scores)
    assert found.allclose(soft)


def test_sampled_frequencies_follow_softmax_and_log_prob_its_gradient():
    scores = torch.tensor([[[0.0, 1.0, 2.0]]], dtype=torch.float64, requires_grad=True)
    many = scores.expand(1, 20_000, 3)
    aligned = Hard(Sampled()).train()(many)
    assert aligned.weights.mean(dim=1).squeeze(0).allclose(torch.softmax(scores, -1).flatten(), atol=0.02)
    assert not aligned.weights.requires_grad
    expected = torch.log_softmax(many, -1).gather(-1, aligned.weights.argmax(-1, keepdim=True)).squeeze(-1)
    assert aligned.sample_log_prob.allclose(expected)
    (gradient,) = torch.autograd.grad(aligned.sample_log_prob.sum(), scores)
    (wanted,) = torch.autograd.grad(expected.sum(), scores)
    assert gradient.allclose(wanted)


def test_reinforce_moves_weight_to_what_pays():
    logits = torch.zeros(1, 1, 4, requires_grad=True)
    values = torch.tensor([[[0.0], [0.0], [1.0], [0.0]]])
    align = Hard(Sampled()).train()
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for _ in range(150):
        aligned = align(logits.expand(16, 1, 4))
        reward = (aligned.weights @ values).squeeze(-1)
        loss = -((reward - reward.mean()) * aligned.sample_log_prob).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.softmax(logits, -1)[0, 0, 2] > 0.9
