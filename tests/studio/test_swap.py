"""Swaps and ablations: weights and outputs of a changed attention."""

import numpy as np
import pytest
import torch

from regard import attend
from regard.attention.alignments import Sparsemax
from regard.attention.masks import causal
from regard.attention.scores import Cosine
from tests.studio.conftest import NAMES

ATTENDING = [name for name in NAMES if name != "seq2seq"]


def swap(client, inspection, **request):
    answer = client.post(f"/api/inspections/{inspection['id']}/swap", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ATTENDING)
def test_swapping_with_equal_settings_changes_nothing(name, inspect, client, weights):
    inspection = inspect(name)
    for site in inspection["sites"][1:]:
        result = swap(client, inspection, site=site["path"])
        assert result["before"]["tokens"] == result["after"]["tokens"]
        assert result["after"]["log_prob"] == pytest.approx(result["before"]["log_prob"], abs=1e-4)
        assert result["entropy_before"] == pytest.approx(result["entropy_after"], abs=1e-5)
        swapped = {"id": result["id"]}
        np.testing.assert_allclose(weights(swapped, site["path"], 0), weights(inspection, site["path"], 0), atol=1e-6)


@pytest.mark.parametrize("name", ["bahdanau", "lstmn", "transformer"])
def test_every_offered_option_works(name, inspect, client, weights):
    inspection = inspect(name)
    site = next(site for site in inspection["sites"] if site["queries"] != site["keys"] and site["has_scores"])["path"]
    offered = client.get(f"/api/inspections/{inspection['id']}/swaps", params={"site": site}).json()
    tried = 0
    for part, options in (("score", "scores"), ("align", "aligns"), ("mask", "masks"), ("position", "positions")):
        for option in offered[options]:
            request = {"site": site, part: option["name"]}
            if option["refusal"] is None:
                result = swap(client, inspection, **request)
                values = weights({"id": result["id"]}, site, 0)
                assert np.isfinite(values).all() and (values >= 0).all()
                tried += 1
            else:
                answer = client.post(f"/api/inspections/{inspection['id']}/swap", json=request)
                assert answer.status_code == 422 and option["refusal"]["en"] in answer.json()["detail"]
    assert tried >= 10


def test_the_swapped_weights_equal_those_of_attend(inspect, client, weights, studio):
    inspection = inspect("transformer")
    site = "decoder.1.self_attention"
    attention_map = studio.inspections.find(inspection["id"]).inspection.maps[site][0]
    result = swap(client, inspection, site=site, score="cosine", align="sparsemax", temperature=0.5)
    size = attention_map.queries.shape[-1]
    with torch.inference_mode():
        expected = attend(
            attention_map.queries, attention_map.keys, attention_map.values, score=Cosine(scale=2 * size**0.5),
            align=Sparsemax(), mask=causal(),
            return_weights=True,
        ).weights  # fmt: skip
    for head in range(4):
        np.testing.assert_allclose(weights({"id": result["id"]}, site, head), expected[0, head].numpy(), atol=1e-5)


def test_one_head_can_be_swapped_alone(inspect, client, weights):
    inspection = inspect("transformer")
    site = "decoder.0.cross_attention"
    result = {"id": swap(client, inspection, site=site, head=2, align="hard")["id"]}
    for head in range(4):
        same = np.allclose(weights(result, site, head), weights(inspection, site, head), atol=1e-6)
        assert same == (head != 2)
    assert set(np.unique(weights(result, site, 2))) == {0.0, 1.0}


def test_a_window_counts_from_each_step_also_in_a_recurrent_decoder(inspect, client, weights):
    inspection = inspect("bahdanau")
    result = {"id": swap(client, inspection, site="attention", mask="window", window=1)["id"]}
    values = weights(result, "attention", 0)
    rows, columns = np.indices(values.shape)
    assert not values[np.abs(rows - columns) > 1].any()
    inside = (rows < values.shape[1]) & (np.abs(rows - columns) <= 1)
    assert (values[inside] > 0).all()


@pytest.mark.parametrize("mask", ["none", "window", "dilated", "causal"])
@pytest.mark.parametrize(("name", "site"), [("transformer", "decoder.0.self_attention"), ("lstmn", None)])
def test_a_swapped_mask_of_a_decoder_is_causal(name, site, mask, inspect, client, weights):
    inspection = inspect(name)
    site = site or next(one["path"] for one in inspection["sites"] if one["is_causal"])
    result = swap(client, inspection, site=site, mask=mask, window=1)
    values = weights({"id": result["id"]}, site, 0)
    assert not np.triu(values, 1).any()
    # stepwise decoding and teacher forcing are the same system
    if result["after"]["tokens"] == result["before"]["tokens"]:
        assert result["after"]["log_prob"] == pytest.approx(result["after"]["log_prob_of_first"], abs=1e-3)


def test_a_swap_changes_the_output(inspect, client):
    inspection = inspect("transformer")
    before = [swap(client, inspection, site=site["path"], temperature=100)["after"] for site in inspection["sites"][1:]]
    assert len({outcome["log_prob"] for outcome in before}) > 1


def test_entropy_rises_with_the_temperature(inspect, client):
    inspection = inspect("bahdanau")
    cold, warm = (swap(client, inspection, site="attention", temperature=value) for value in (0.01, 100.0))
    even = np.log(len(inspection["axes"][0]["tokens"]))
    assert max(cold["entropy_after"]) <= min(warm["entropy_after"])
    np.testing.assert_allclose(warm["entropy_after"], even, atol=1e-3)


@pytest.mark.parametrize(("name", "site"), [("bahdanau", "attention"), ("transformer", "decoder.0.self_attention")])
def test_sigmoid_has_the_bias_of_its_paper_and_no_entropy_above_that_of_equal_weights(
    name, site, inspect, client, weights, studio
):
    inspection = inspect(name)
    result = swap(client, inspection, site=site, head=0, align="sigmoid")
    values = torch.from_numpy(weights({"id": result["id"]}, site, 0)).double()
    maps = studio.inspections.find(inspection["id"]).inspection.maps[site]
    expected, start = torch.zeros_like(values), 0
    for one in maps:
        # without heads, the only batch element is first
        scores = one.scores[0, 0] if one.scores.ndim > 3 else one.scores[0]
        allowed = torch.ones_like(one.weights) if one.allowed is None else one.allowed.expand(one.weights.shape)
        allowed = (allowed[0, 0] if allowed.ndim > 3 else allowed[0]).double()
        rows = (scores.double() - allowed.sum(-1, keepdim=True).log()).sigmoid() * allowed
        expected[start : start + len(rows), : rows.shape[1]] = rows
        start += len(rows)
    torch.testing.assert_close(values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result["sum_after"], values.sum(-1).numpy(), atol=1e-5)
    np.testing.assert_allclose(result["sum_before"], 1, atol=1e-5)
    shares = values / values.sum(-1, keepdim=True)
    np.testing.assert_allclose(result["entropy_after"], torch.special.entr(shares).sum(-1).numpy(), atol=1e-5)
    assert max(result["entropy_after"]) <= np.log(values.shape[1]) + 1e-6


def test_the_formula_of_sigmoid_has_its_bias(inspect, client):
    inspection = inspect("bahdanau")
    offered = client.get(f"/api/inspections/{inspection['id']}/swaps", params={"site": "attention"}).json()
    assert next(one["formula"] for one in offered["aligns"] if one["name"] == "sigmoid").endswith("b = -log(keys)")


def test_statistics_of_heads(inspect, client):
    inspection = inspect("transformer")
    result = client.get(f"/api/inspections/{inspection['id']}/heads").json()
    assert len(result["heads"]) == sum(site["heads"] for site in inspection["sites"][1:])
    pictures = client.get(f"/api/inspections/{inspection['id']}/thumbnails").content
    assert len(pictures) == len(result["heads"]) * result["thumbnail"] ** 2
    assert all(
        0 <= head["diagonal"] <= 1 and 0 < head["peak"] <= 1 and head["entropy"] >= 0 and head["distance"] >= 0
        for head in result["heads"]
    )


@pytest.mark.parametrize("name", ATTENDING)
def test_an_ablated_head_changes_the_probabilities(name, inspect, client, folder):
    inspection = inspect(name)
    site = next(site for site in inspection["sites"] if site["queries"] != site["keys"] and site["has_scores"])
    result = client.post(f"/api/inspections/{inspection['id']}/ablate", json={"site": site["path"], "head": 0}).json()
    assert result["before"]["output"] == inspection["output"]
    assert result["before"]["log_prob_of_first"] == pytest.approx(inspection["log_prob"], abs=1e-3)
    assert result["after"]["log_prob_of_first"] != result["before"]["log_prob_of_first"]


def test_invalid_ablations_and_swaps_are_refused(inspect, client):
    inspection = inspect("bahdanau")
    answer = client.post(f"/api/inspections/{inspection['id']}/ablate", json={"site": "attention", "head": 1})
    assert answer.status_code == 404 and "no head 1" in answer.json()["detail"]
    for request in ({"site": "alignment"}, {"site": "attention", "score": "nothing"}, {"site": "attention", "head": 3}):
        assert client.post(f"/api/inspections/{inspection['id']}/swap", json=request).status_code in (404, 422)
