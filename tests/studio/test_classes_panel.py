"""Classifiers in the studio: classes, rows of attention and their overlap are what torch computes."""

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
def said(readers_folder):
    """What each model says of the question in double precision."""
    found = {}
    for name in SENTENCES:
        classifier = regard.load(readers_folder / name, device="cpu")
        ids = classifier.tokenizer.encode(QUESTION)
        with torch.inference_mode():
            found[name] = classifier.model.double()(PaddedTokens.from_lists([ids]))
    return found


@pytest.mark.parametrize("name", SENTENCES)
def test_every_class_has_its_probability(name, read, readers, said, readers_folder):
    made = read(name)
    told = readers.get(f"/api/inspections/{made['id']}/classes").json()
    labels = regard.load(readers_folder / name).run.classes
    shares = dict(zip(labels, said[name].logits[0].softmax(-1).tolist(), strict=True))
    assert told["label"] == made["output"] == max(shares, key=shares.__getitem__)
    assert [one["label"] for one in told["classes"]] == sorted(shares, key=shares.__getitem__, reverse=True)
    for one in told["classes"]:
        assert one["probability"] == pytest.approx(shares[one["label"]], abs=1e-6)
    assert sum(one["probability"] for one in told["classes"]) == pytest.approx(1, abs=1e-9)
    assert (told["num_rows"] > 0) == (name == "structured_self_attention") == (told["overlap"] is not None)


def test_rows_and_their_overlap(read, readers, said):
    made = read("structured_self_attention")
    told = readers.get(f"/api/inspections/{made['id']}/classes").json()
    truth = said["structured_self_attention"].weights[0]
    found = exact(readers, made, told["site"], 0)
    assert found.shape == (3, 5) and [axis["name"] for axis in made["axes"]] == ["source", "rows"]
    np.testing.assert_allclose(found, truth.numpy(), atol=1e-6)
    assert told["overlap"]["penalty"] == pytest.approx(overlap(truth[None]).item(), abs=1e-6)
    cosines = np.array(told["overlap"]["cosines"])
    normal = truth / truth.norm(dim=-1, keepdim=True)
    np.testing.assert_allclose(cosines, (normal @ normal.T).numpy(), atol=1e-6)
    assert told["overlap"]["cosine"] == pytest.approx(cosines[~np.eye(3, dtype=bool)].mean(), abs=1e-6)


@pytest.mark.parametrize("name", ATTENDING)
def test_numbers_are_what_their_snippets_print(name, read, readers):
    made, chance = read(name), random.Random(name)
    for quantity in QUANTITIES:
        site = chance.choice(made["sites"])
        asked = {"site": site["path"], "head": chance.randrange(site["heads"]), "query": 2}
        shown = readers.get(f"/api/inspections/{made['id']}/compute", params=asked).json()
        more = {"key": chance.randrange(shown["num_keys"]), "dimension": chance.randrange(5), "quantity": quantity}
        number = readers.get(f"/api/inspections/{made['id']}/number", params=asked | more).json()
        assert float(printed(number["snippet"])) == pytest.approx(number["value"], abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("name", ATTENDING)
def test_heads_and_swaps_serve_here_too(name, read, readers):
    made = read(name)
    where, site = f"/api/inspections/{made['id']}", made["sites"][0]
    same = readers.post(f"{where}/swap", json={"site": site["path"]}).json()
    assert same["before"]["output"] == same["after"]["output"] == made["output"]
    assert same["before"]["log_prob"] == pytest.approx(same["after"]["log_prob"], abs=1e-6)
    other = readers.post(f"{where}/swap", json={"site": site["path"], "align": "hard"}).json()
    assert other["after"]["log_prob_of_first"] != other["before"]["log_prob_of_first"]
    without = readers.post(f"{where}/ablate", json={"site": site["path"], "head": 0}).json()
    assert without["before"]["log_prob"] == pytest.approx(made["log_prob"], abs=1e-6)
    assert len(readers.get(f"{where}/heads").json()["heads"]) == sum(one["heads"] for one in made["sites"])


def test_what_has_no_attention_has_no_sites(read):
    assert read("cnn")["sites"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"model": "cnn", "text": " "}, "the text has no tokens"),
        ({"model": "cnn", "text": "who", "output": "HUM"}, "Leave out the output"),
        ({"model": "cnn", "text": "who " * 1500}, "Shorten it"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(readers, body, words):
    answer = readers.post("/api/inspections", json=body)
    assert answer.status_code == 422 and words in answer.json()["detail"]


def test_a_long_sentence_is_cut_and_an_unknown_word_named(read, readers):
    made = read("cnn", "who wrote the zebra " * 100)
    assert made["num_dropped"] == 400 - 256
    assert made["unknown"] == ["zebra"]
