"""Numbers on the page equal those of torch and of their snippets."""

import contextlib
import io
import random

import numpy as np
import pytest
import torch

import regard
from regard.contracts import EOS, PaddedTokens
from tests.studio.conftest import NAMES, TEXT

ATTENDING = [name for name in NAMES if name != "seq2seq"]
QUANTITIES = ("query", "key", "value", "score", "allowed", "weight", "product", "context")


def printed(snippet):
    message = io.StringIO()
    with contextlib.redirect_stdout(message):
        exec(snippet, {})
    return float(message.getvalue())


def listed_in(values, quantity, key, dimension):
    """The same number where the pipeline lists it."""
    if quantity == "product":
        return values["weights"][key] * values["values"][key][dimension]
    if quantity == "allowed":
        return float(values["allowed"][key]) if values["allowed"] else 1.0
    if quantity in ("query", "context"):
        return values[quantity][dimension]
    listed = values[f"{quantity}s"][key]
    return listed[dimension] if quantity in ("key", "value") else listed


@pytest.mark.parametrize("name", ATTENDING)
def test_random_numbers_equal_the_output_of_their_snippets(name, inspect, client):
    inspection, chance = inspect(name), random.Random(name)
    sites = [site for site in inspection["sites"] if site["has_scores"]]
    sizes = {axis["name"]: len(axis["tokens"]) for axis in inspection["axes"]}
    for index in range(10):
        site, quantity = chance.choice(sites), QUANTITIES[index % len(QUANTITIES)]
        # the first query has no keys
        request = {"site": site["path"], "head": chance.randrange(site["heads"]), "query": sizes[site["queries"]] - 1}
        values = client.get(f"/api/inspections/{inspection['id']}/compute", params=request).json()
        more = {"key": chance.randrange(values["num_keys"]), "dimension": chance.randrange(5), "quantity": quantity}
        number = client.get(f"/api/inspections/{inspection['id']}/number", params=request | more).json()
        assert printed(number["snippet"]) == pytest.approx(number["value"], abs=1e-6, rel=1e-6)
        assert number["address"].startswith(site["path"]) and f"{quantity}[" in number["address"]
        listed = listed_in(values, quantity, more["key"], more["dimension"])
        assert listed == pytest.approx(number["value"], abs=1e-6)


@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_the_stages_are_consistent(name, inspect, client):
    inspection = inspect(name)
    site = next(site for site in inspection["sites"] if site["queries"] != site["keys"] and site["has_scores"])
    computation = client.get(
        f"/api/inspections/{inspection['id']}/compute", params={"site": site["path"], "query": 1}
    ).json()
    weights, values = np.array(computation["weights"]), np.array(computation["values"])
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(weights @ values, computation["context"], atol=1e-5)
    scores = np.array(computation["scores"])
    np.testing.assert_allclose(weights, np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum(), atol=1e-5)
    assert ("tanh" in computation["score_formula"]) == (name == "bahdanau")


def test_the_values_and_the_context_of_rnnsearch_are_those_of_the_paper(inspect, client, folder):
    inspection = inspect("bahdanau")
    where, request = f"/api/inspections/{inspection['id']}", {"site": "attention", "query": 1, "first_dimension": 64}
    computation = client.get(f"{where}/compute", params=request).json()
    system = regard.load(folder / "bahdanau")
    model, size = system.model, 2 * system.model.config.hidden_size
    assert computation["value_size"] == size
    source = PaddedTokens.from_lists([[*system.tokenizers.source.encode(TEXT), EOS]])
    with torch.inference_mode():
        states = model.encoder(model.source_embedding(source.ids), source.lengths)[0]
    np.testing.assert_allclose(computation["values"], states[:, 64:128].numpy(), atol=1e-6)
    for quantity in ("value", "context", "product"):
        more = {"quantity": quantity, "key": 2, "dimension": size - 1}
        number = client.get(f"{where}/number", params=request | more).json()
        assert printed(number["snippet"]) == pytest.approx(number["value"], abs=1e-6, rel=1e-6)
        refused = client.get(f"{where}/number", params=request | more | {"dimension": size})
        assert refused.status_code == 404 and f"there are {size}" in refused.json()["detail"]


def test_scores_of_a_causal_head_are_masked_after_the_query(inspect, client):
    inspection = inspect("transformer")
    request = {"site": "decoder.0.self_attention", "query": 1}
    values = client.get(f"/api/inspections/{inspection['id']}/compute", params=request).json()
    assert values["allowed"] == [True, True, *[False] * (values["num_keys"] - 2)]
    assert not any(values["weights"][2:])


def test_a_snippet_recomputes_a_number_from_the_checkpoint(inspect, client, studio):
    from regard.studio import code_snippets
    from regard.studio.computation import QueryRow

    inspection = inspect("transformer")
    row = QueryRow(studio.inspections.find(inspection["id"]), "decoder.1.cross_attention", 2, 1)
    snippet = code_snippets.from_checkpoint(row, "attention_map.weights", "here", (1, 3))
    assert printed(snippet) == pytest.approx(row.line("weights")[3].item(), abs=1e-6)
    row = QueryRow(studio.inspections.find(inspect("bahdanau")["id"]), "attention", 0, 2)
    snippet = code_snippets.from_checkpoint(row, "attention_map.context", "here", (0, 3))
    assert printed(snippet) == pytest.approx(row.line("context")[3].item(), abs=1e-6)


@pytest.mark.parametrize(
    ("path", "more", "words"),
    [
        ("compute", {"query": 9999}, "no query 9999"),
        ("compute", {"query": 0, "head": 9}, "no head 9"),
        ("compute", {"query": 0, "site": "nowhere"}, "no attention at 'nowhere'"),
        ("compute", {"query": 0, "site": "alignment"}, "no attention at 'alignment'"),
        ("number", {"query": 0, "quantity": "weight", "key": 999}, "no key 999"),
        ("number", {"query": 0, "quantity": "context", "dimension": 999}, "no dimension 999"),
        ("row", {"query": 999}, "no query 999"),
        ("weights", {"head": 7}, "no head 7"),
    ],
)
def test_positions_out_of_range_are_refused(inspect, client, path, more, words):
    inspection = inspect("bahdanau")
    answer = client.get(f"/api/inspections/{inspection['id']}/{path}", params={"site": "attention"} | more)
    assert answer.status_code == 404 and words in answer.json()["detail"]
