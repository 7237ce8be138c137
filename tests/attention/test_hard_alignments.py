"""Hard alignments and the gradients of their choices."""

import torch

from regard.attention.alignments import Argmax, Gumbel, Hard, Sampled

BATCH, QUERIES, KEYS = 3, 5, 7


def scores_needing_gradient():
    return torch.randn(BATCH, QUERIES, KEYS, dtype=torch.float64, requires_grad=True)


def test_argmax_gives_scores_no_gradient():
    scores = scores_needing_gradient()
    assert not Hard(Argmax())(scores).weights.requires_grad


def test_gumbel_is_hard_forward_and_soft_backward():
    scores = scores_needing_gradient()
    aligned = Hard(Gumbel(temperature=0.7)).eval()(scores)
    assert aligned.weights.allclose(torch.nn.functional.one_hot(scores.argmax(-1), KEYS).double())
    upstream = torch.randn(BATCH, QUERIES, KEYS, dtype=torch.float64)
    (actual,) = torch.autograd.grad((aligned.weights * upstream).sum(), scores)
    (soft,) = torch.autograd.grad((torch.softmax(scores / 0.7, -1) * upstream).sum(), scores)
    assert actual.allclose(soft)


def test_sampled_frequencies_follow_softmax_and_log_prob_its_gradient():
    scores = torch.tensor([[[0.0, 1.0, 2.0]]], dtype=torch.float64, requires_grad=True)
    many = scores.expand(1, 20_000, 3)
    aligned = Hard(Sampled()).train()(many)
    assert aligned.weights.mean(dim=1).squeeze(0).allclose(torch.softmax(scores, -1).flatten(), atol=0.02)
    assert not aligned.weights.requires_grad
    expected = torch.log_softmax(many, -1).gather(-1, aligned.weights.argmax(-1, keepdim=True)).squeeze(-1)
    assert aligned.sample_log_prob.allclose(expected)
    (gradient,) = torch.autograd.grad(aligned.sample_log_prob.sum(), scores)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), scores)
    assert gradient.allclose(expected_gradient)


def test_reinforce_increases_the_weight_of_rewarded_keys():
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
