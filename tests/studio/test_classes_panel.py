"""Classifiers in the studio: classes, rows of attention and their overlap equal those of torch."""

import random

import numpy as np
import pytest
import torch

import regard
from regard.contracts import PaddedTokens
from regard.models.text_classification.structured_self_attention import overlap
from tests.small_models import QUESTION, SENTENCES
from tests.studio.test_next_token_panel import QUANTITIES, exact, printed

ATTENDING = ("lstmn_encoder", "structured_self_attention", "transformer_encoder")


@pytest.fixture(scope="module")
def outputs(small_folder):
    """The prediction of each model for the question in double precision."""
    result = {}
    for name in SENTENCES:
        classifier = regard.load(small_folder / name, device="cpu")
        ids = classifier.tokenizer.encode(QUESTION)
        with torch.inference_mode():
            result[name] = classifier.model.double()(PaddedTokens.from_lists([ids]))
    return result


@pytest.mark.parametrize("name", SENTENCES)
def test_every_class_has_its_probability(name, inspect_small, small_client, outputs, small_folder):
    inspection = inspect_small(name)
    data = small_client.get(f"/api/inspections/{inspection['id']}/classes").json()
    labels = regard.load(small_folder / name).run.classes
    shares = dict(zip(labels, outputs[name].logits[0].softmax(-1).tolist(), strict=True))
    assert data["label"] == inspection["output"] == max(shares, key=shares.__getitem__)
    assert [one["label"] for one in data["classes"]] == sorted(shares, key=shares.__getitem__, reverse=True)
    for one in data["classes"]:
        assert one["probability"] == pytest.approx(shares[one["label"]], abs=1e-6)
    assert sum(one["probability"] for one in data["classes"]) == pytest.approx(1, abs=1e-9)
    assert (data["num_rows"] > 0) == (name == "structured_self_attention") == (data["overlap"] is not None)


def test_rows_and_their_overlap(inspect_small, small_client, outputs):
    inspection = inspect_small("structured_self_attention")
    data = small_client.get(f"/api/inspections/{inspection['id']}/classes").json()
    truth = outputs["structured_self_attention"].weights[0]
    result = exact(small_client, inspection, data["site"], 0)
    assert result.shape == (3, 5) and [axis["name"] for axis in inspection["axes"]] == ["source", "rows"]
    np.testing.assert_allclose(result, truth.numpy(), atol=1e-6)
    assert data["overlap"]["penalty"] == pytest.approx(overlap(truth[None]).item(), abs=1e-6)
    cosines = np.array(data["overlap"]["cosines"])
    normal = truth / truth.norm(dim=-1, keepdim=True)
    np.testing.assert_allclose(cosines, (normal @ normal.T).numpy(), atol=1e-6)
    assert data["overlap"]["cosine"] == pytest.approx(cosines[~np.eye(3, dtype=bool)].mean(), abs=1e-6)


@pytest.mark.parametrize("name", ATTENDING)
def test_numbers_equal_the_output_of_their_snippets(name, inspect_small, small_client):
    inspection, chance = inspect_small(name), random.Random(name)
    for quantity in QUANTITIES:
        site = chance.choice(inspection["sites"])
        parameters = {"site": site["path"], "head": chance.randrange(site["heads"]), "query": 2}
        values = small_client.get(f"/api/inspections/{inspection['id']}/compute", params=parameters).json()
        more = {"key": chance.randrange(values["num_keys"]), "dimension": chance.randrange(5), "quantity": quantity}
        number = small_client.get(f"/api/inspections/{inspection['id']}/number", params=parameters | more).json()
        assert float(printed(number["snippet"])) == pytest.approx(number["value"], abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("name", ATTENDING)
def test_heads_and_swaps_are_available(name, inspect_small, small_client):
    inspection = inspect_small(name)
    where, site = f"/api/inspections/{inspection['id']}", inspection["sites"][0]
    same = small_client.post(f"{where}/swap", json={"site": site["path"]}).json()
    assert same["before"]["output"] == same["after"]["output"] == inspection["output"]
    assert same["before"]["log_prob"] == pytest.approx(same["after"]["log_prob"], abs=1e-6)
    other = small_client.post(f"{where}/swap", json={"site": site["path"], "align": "hard"}).json()
    assert other["after"]["log_prob_of_first"] != other["before"]["log_prob_of_first"]
    without = small_client.post(f"{where}/ablate", json={"site": site["path"], "head": 0}).json()
    assert without["before"]["log_prob"] == pytest.approx(inspection["log_prob"], abs=1e-6)
    assert len(small_client.get(f"{where}/heads").json()["heads"]) == sum(one["heads"] for one in inspection["sites"])


def test_a_model_without_attention_has_no_sites(inspect_small):
    assert inspect_small("cnn")["sites"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"model": "cnn", "text": " "}, "the text has no tokens"),
        ({"model": "cnn", "text": "who", "output": "HUM"}, "Leave out the output"),
        ({"model": "cnn", "text": "who " * 1500}, "Shorten it"),
    ],
)
def test_invalid_requests_are_refused_with_a_message(small_client, body, words):
    answer = small_client.post("/api/inspections", json=body)
    assert answer.status_code == 422 and words in answer.json()["detail"]


def test_a_long_sentence_is_truncated_and_an_unknown_word_named(inspect_small, small_client):
    inspection = inspect_small("cnn", "who wrote the zebra " * 100)
    assert inspection["num_dropped"] == 400 - 256
    assert inspection["unknown"] == ["zebra"]
