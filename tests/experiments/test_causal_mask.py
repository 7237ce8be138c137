"""Causal mask: the verdict is against a model that attends to the future, and not against one that does not."""

import math

import pytest
import torch

from regard.attention.masks import causal
from regard.experiments import causal_mask
from regard.experiments.causal_mask import Language, Trained, generate, judge, loss_of, train_and_evaluate
from regard.experiments.lib.small_transformer import SmallTransformer

LANGUAGE = Language(num_symbols=5, length=8)


def test_the_claim_holds_for_the_model_without_a_mask_only():
    """Two models with the mask, two without, small enough to train in seconds."""
    masked, unmasked = (
        [train_and_evaluate(seed, LANGUAGE, mask, steps=350, size=32) for seed in range(2)] for mask in (causal(), None)
    )
    holds, verdict = judge(masked, unmasked, LANGUAGE)
    assert holds, verdict
    assert "a collapse" in verdict.en
    assert "it cannot generate" in verdict.en
    holds, verdict = judge(masked, masked, LANGUAGE)
    assert not holds
    assert "no collapse" in verdict.en
    assert "it can generate" in verdict.en
    holds, verdict = judge(unmasked, unmasked, LANGUAGE)
    assert not holds
    assert "not within a tenth" in verdict.en


def test_untrained_models_do_not_confirm_the_claim():
    finding = causal_mask.run(repeats=2, steps=3, size=16, num_symbols=5, length=6)
    assert not finding.holds
    assert "no collapse" in finding.verdict.en


def test_with_the_same_mask_both_models_are_equal():
    finding = causal_mask.run(repeats=2, steps=3, size=16, num_symbols=5, length=6, unmasked=causal())
    masked, other = (dict(row) | {"model": ""} for row in finding.rows[:2])
    assert masked == other


def test_the_floor_is_the_entropy_of_the_language():
    language = Language(num_symbols=4, length=5)
    # the second symbol, then a coin for each of the other three
    assert language.floor == pytest.approx((math.log(4) + 3 * math.log(2)) / 4)
    ids = language.draw(20_000)
    assert language.legal(ids).all()
    coins = (ids[:, 2:] - ids[:, 1:-1] - ids[:, :-2]) % 4
    assert coins.double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert language.legal(torch.randint(4, (20_000, 5))).double().mean().item() == pytest.approx(
        language.chance, abs=0.02
    )


def test_the_masked_model_does_not_depend_on_the_future_and_the_unmasked_does():
    model = SmallTransformer(vocab_size=5, size=16, num_heads=4, num_layers=2)
    ids = LANGUAGE.draw(2)
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 5
    torch.testing.assert_close(model(ids, causal())[:, :-1], model(changed, causal())[:, :-1], rtol=0, atol=0)
    assert (model(ids, None)[:, :-1] - model(changed, None)[:, :-1]).abs().max() > 1e-4


def test_generation_begins_with_two_symbols_and_loss_near_uniform():
    model = SmallTransformer(vocab_size=5, size=16, num_heads=4, num_layers=1)
    assert generate(model, LANGUAGE, None, count=3).shape == (3, 8)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    assert loss_of(model, LANGUAGE.draw(4), causal()).item() == pytest.approx(math.log(5))


def test_the_final_loss_is_that_of_the_last_tenth():
    losses = [9.0] * 18 + [1.0, 2.0]
    assert Trained(losses=losses, masked_loss=0.0, legal=[]).final_loss == 1.5
