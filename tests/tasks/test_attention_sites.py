"""Sites are determined once per model and again after a change; keys are aligned to their tokens."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.attention import Attention, trace
from regard.attention.scores import Dot, ScaledDot
from regard.contracts import AttentionSite
from regard.tasks import align_to_tokens, count_numbers, describe_site, drop_empty_keys, find_sites, first_key


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Attention(Dot())

    def forward(self, vectors):
        for module in self.children():
            module(vectors, module.prepare_memory(vectors, vectors))


def maps_of(model, length=3):
    with torch.inference_mode(), trace(model) as maps:
        model(torch.randn(1, length, 4, generator=torch.Generator().manual_seed(0)))
    return maps


def test_a_model_is_probed_again_when_its_attentions_change():
    model, num_probes = Model(), 0

    def probe():
        nonlocal num_probes
        num_probes += 1
        return tuple(describe_site(path, one, query_axis="a", key_axis="a") for path, one in maps_of(model).items())

    assert [site.path for site in find_sites(model, probe)] == ["first"]
    find_sites(model, probe, maps_of(model, 5))
    assert num_probes == 1
    model.second = Attention(ScaledDot())
    sites = find_sites(model, probe, maps_of(model, 5))
    assert [(site.path, site.score) for site in sites] == [("first", "dot"), ("second", "scaled_dot")]
    assert num_probes == 2


def test_more_numbers_than_allowed_are_refused():
    site = AttentionSite(
        path="x", query_axis="a", key_axis="b", num_heads=2, score="dot", alignment="softmax", numbers_per_key=10
    )
    assert count_numbers([site], {"a": 3, "b": 5}, None) == 2 * 2 * 3 * 5 + 5 * 10
    assert count_numbers([replace(site, key_memories=True)], {"a": 3, "b": 5}, None) == 60 + 7 * 10
    with pytest.raises(ValueError, match="Shorten the text"):
        count_numbers([site], {"a": 3, "b": 5}, 109)


def test_empty_keys_are_dropped_and_missing_keys_have_no_weight():
    attention_map = maps_of(Model())["first"][0]
    assert first_key(attention_map, 0, is_stepwise=False) == 0
    assert first_key(attention_map, 7, is_stepwise=True) == 4
    whole = drop_empty_keys(attention_map, -1)
    torch.testing.assert_close(whole.weights, attention_map.weights[..., 1:])
    aligned = align_to_tokens(attention_map, 2)
    assert aligned.weights.shape[-1] == 5 and not aligned.weights[..., :2].any()
    assert aligned.allowed is not None and aligned.allowed[0, 0].tolist() == [False, False, True, True, True]
    torch.testing.assert_close(aligned.scores[..., 2:], attention_map.scores)
