"""Swaps and ablations: what attention gives under another rule, and what the system then says."""

import numpy as np
import pytest
import torch

from regard import attend
from regard.attention.alignments import Sparsemax
from regard.attention.masks import causal
from regard.attention.scores import Cosine
from tests.studio.conftest import NAMES

ATTENDING = [name for name in NAMES if name != "seq2seq"]


def swap(client, look, **asked):
    answer = client.post(f"/api/inspections/{look['id']}/swap", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ATTENDING)
def test_swapping_nothing_changes_nothing(name, look, client, weights):
    made = look(name)
    for site in made["sites"][1:]:
        found = swap(client, made, site=site["path"])
        assert found["before"]["tokens"] == found["after"]["tokens"]
        assert found["after"]["log_prob"] == pytest.approx(found["before"]["log_prob"], abs=1e-4)
        assert found["entropy_before"] == pytest.approx(found["entropy_after"], abs=1e-5)
        kept = {"id": found["id"]}
        np.testing.assert_allclose(weights(kept, site["path"], 0), weights(made, site["path"], 0), atol=1e-6)


@pytest.mark.parametrize("name", ["bahdanau", "lstmn", "transformer"])
def test_every_option_that_is_offered_works(name, look, client, weights):
    made = look(name)
    site = next(site for site in made["sites"] if site["queries"] != site["keys"] and site["has_scores"])["path"]
    offered = client.get(f"/api/inspections/{made['id']}/swaps", params={"site": site}).json()
    tried = 0
    for part, options in (("score", "scores"), ("align", "aligns"), ("mask", "masks"), ("position", "positions")):
        for option in offered[options]:
            asked = {"site": site, part: option["name"]}
            if option["refusal"] is None:
                found = swap(client, made, **asked)
                shown = weights({"id": found["id"]}, site, 0)
                assert np.isfinite(shown).all() and (shown >= 0).all()
                tried += 1
            else:
                answer = client.post(f"/api/inspections/{made['id']}/swap", json=asked)
                assert answer.status_code == 422 and option["refusal"]["en"] in answer.json()["detail"]
    assert tried >= 10


def test_the_swapped_weights_are_what_attend_gives(look, client, weights, studio):
    made = look("transformer")
    site = "decoder.1.self_attention"
    read = studio.inspections.find(made["id"]).inspection.maps[site][0]
    found = swap(client, made, site=site, score="cosine", align="sparsemax", temperature=0.5)
    size = read.queries.shape[-1]
    with torch.inference_mode():
        expected = attend(
            read.queries, read.keys, read.values, score=Cosine(scale=2 * size**0.5), align=Sparsemax(), mask=causal(),
            return_weights=True,
        ).weights  # fmt: skip
    for head in range(4):
        np.testing.assert_allclose(weights({"id": found["id"]}, site, head), expected[0, head].numpy(), atol=1e-5)


def test_one_head_can_be_swapped_alone(look, client, weights):
    made = look("transformer")
    site = "decoder.0.cross_attention"
    found = {"id": swap(client, made, site=site, head=2, align="hard")["id"]}
    for head in range(4):
        same = np.allclose(weights(found, site, head), weights(made, site, head), atol=1e-6)
        assert same == (head != 2)
    assert set(np.unique(weights(found, site, 2))) == {0.0, 1.0}


def test_a_window_counts_from_each_step_also_in_a_recurrent_decoder(look, client, weights):
    made = look("bahdanau")
    found = {"id": swap(client, made, site="attention", mask="window", window=1)["id"]}
    shown = weights(found, "attention", 0)
    rows, columns = np.indices(shown.shape)
    assert not shown[np.abs(rows - columns) > 1].any()
    inside = (rows < shown.shape[1]) & (np.abs(rows - columns) <= 1)
    assert (shown[inside] > 0).all()


@pytest.mark.parametrize("mask", ["none", "window", "dilated", "causal"])
@pytest.mark.parametrize(("name", "site"), [("transformer", "decoder.0.self_attention"), ("lstmn", None)])
def test_a_mask_never_shows_a_decoder_what_it_has_yet_to_write(name, site, mask, look, client, weights):
    made = look(name)
    site = site or next(one["path"] for one in made["sites"] if one["is_causal"])
    found = swap(client, made, site=site, mask=mask, window=1)
    shown = weights({"id": found["id"]}, site, 0)
    assert not np.triu(shown, 1).any()
    # step by step and all at once are the same system
    if found["after"]["tokens"] == found["before"]["tokens"]:
        assert found["after"]["log_prob"] == pytest.approx(found["after"]["log_prob_of_first"], abs=1e-3)


def test_a_swap_reaches_the_answer(look, client):
    made = look("transformer")
    before = [swap(client, made, site=site["path"], temperature=100)["after"] for site in made["sites"][1:]]
    assert len({outcome["log_prob"] for outcome in before}) > 1


def test_entropy_rises_with_the_temperature(look, client):
    made = look("bahdanau")
    cold, warm = (swap(client, made, site="attention", temperature=value) for value in (0.01, 100.0))
    even = np.log(len(made["axes"][0]["tokens"]))
    assert max(cold["entropy_after"]) <= min(warm["entropy_after"])
    np.testing.assert_allclose(warm["entropy_after"], even, atol=1e-3)


def test_heads_in_figures(look, client):
    made = look("transformer")
    found = client.get(f"/api/inspections/{made['id']}/heads").json()
    assert len(found["heads"]) == sum(site["heads"] for site in made["sites"][1:])
    pictures = client.get(f"/api/inspections/{made['id']}/thumbnails").content
    assert len(pictures) == len(found["heads"]) * found["thumbnail"] ** 2
    assert all(
        0 <= head["diagonal"] <= 1 and 0 < head["peak"] <= 1 and head["entropy"] >= 0 and head["distance"] >= 0
        for head in found["heads"]
    )


@pytest.mark.parametrize("name", ATTENDING)
def test_a_head_that_is_ablated_changes_the_probabilities(name, look, client, folder):
    made = look(name)
    site = next(site for site in made["sites"] if site["queries"] != site["keys"] and site["has_scores"])
    found = client.post(f"/api/inspections/{made['id']}/ablate", json={"site": site["path"], "head": 0}).json()
    assert found["before"]["output"] == made["output"]
    assert found["before"]["log_prob_of_first"] == pytest.approx(made["log_prob"], abs=1e-3)
    assert found["after"]["log_prob_of_first"] != found["before"]["log_prob_of_first"]


def test_what_cannot_be_ablated_or_swapped(look, client):
    made = look("bahdanau")
    answer = client.post(f"/api/inspections/{made['id']}/ablate", json={"site": "attention", "head": 1})
    assert answer.status_code == 404 and "no head 1" in answer.json()["detail"]
    for asked in ({"site": "alignment"}, {"site": "attention", "score": "nothing"}, {"site": "attention", "head": 3}):
        assert client.post(f"/api/inspections/{made['id']}/swap", json=asked).status_code in (404, 422)
