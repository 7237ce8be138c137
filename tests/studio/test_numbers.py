"""Numbers on the page are torch's, and their snippets print them."""

import contextlib
import io
import random

import pytest

from tests.studio.conftest import NAMES

ATTENDING = [name for name in NAMES if name != "seq2seq"]
QUANTITIES = ("query", "key", "value", "score", "allowed", "weight", "product", "context")


def printed(snippet):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(snippet, {})
    return float(said.getvalue())


def listed_in(shown, quantity, key, dimension):
    """The same number where the pipeline lists it."""
    if quantity == "product":
        return shown["weights"][key] * shown["values"][key][dimension]
    if quantity == "allowed":
        return float(shown["allowed"][key]) if shown["allowed"] else 1.0
    if quantity in ("query", "context"):
        return shown[quantity][dimension]
    listed = shown[f"{quantity}s"][key]
    return listed[dimension] if quantity in ("key", "value") else listed


@pytest.mark.parametrize("name", ATTENDING)
def test_ten_random_numbers_are_what_their_snippets_print(name, look, client):
    made, chance = look(name), random.Random(name)
    sites = [site for site in made["sites"] if site["has_scores"]]
    sizes = {axis["name"]: len(axis["tokens"]) for axis in made["axes"]}
    for place in range(10):
        site, quantity = chance.choice(sites), QUANTITIES[place % len(QUANTITIES)]
        # the first query of a tape has nothing to read
        asked = {"site": site["path"], "head": chance.randrange(site["heads"]), "query": sizes[site["queries"]] - 1}
        shown = client.get(f"/api/inspections/{made['id']}/compute", params=asked).json()
        more = {"key": chance.randrange(shown["num_keys"]), "dimension": chance.randrange(5), "quantity": quantity}
        number = client.get(f"/api/inspections/{made['id']}/number", params=asked | more).json()
        assert printed(number["snippet"]) == pytest.approx(number["value"], abs=1e-6, rel=1e-6)
        assert number["address"].startswith(site["path"]) and f"{quantity}[" in number["address"]
        listed = listed_in(shown, quantity, more["key"], more["dimension"])
        assert listed == pytest.approx(number["value"], abs=1e-6)


@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_the_pipeline_adds_up(name, look, client):
    import numpy as np

    made = look(name)
    site = next(site for site in made["sites"] if site["queries"] != site["keys"] and site["has_scores"])
    shown = client.get(f"/api/inspections/{made['id']}/compute", params={"site": site["path"], "query": 1}).json()
    weights, values = np.array(shown["weights"]), np.array(shown["values"])
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(weights @ values, shown["context"], atol=1e-5)
    scores = np.array(shown["scores"])
    np.testing.assert_allclose(weights, np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum(), atol=1e-5)
    assert ("tanh" in shown["score_formula"]) == (name == "bahdanau")


def test_scores_of_a_causal_head_are_masked_ahead(look, client):
    made = look("transformer")
    asked = {"site": "decoder.0.self_attention", "query": 1}
    shown = client.get(f"/api/inspections/{made['id']}/compute", params=asked).json()
    assert shown["allowed"] == [True, True, *[False] * (shown["num_keys"] - 2)]
    assert not any(shown["weights"][2:])


def test_what_the_checkpoint_alone_can_make_again_it_makes(look, client, studio):
    from regard.studio import code_snippets
    from regard.studio.computation import QueryRow

    made = look("transformer")
    row = QueryRow(studio.inspections.find(made["id"]), "decoder.1.cross_attention", 2, 1)
    snippet = code_snippets.from_checkpoint(row, "attention_map.weights", "here", (1, 3))
    assert printed(snippet) == pytest.approx(row.line("weights")[3].item(), abs=1e-6)
    row = QueryRow(studio.inspections.find(look("bahdanau")["id"]), "attention", 0, 2)
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
def test_places_that_are_not_there(look, client, path, more, words):
    made = look("bahdanau")
    answer = client.get(f"/api/inspections/{made['id']}/{path}", params={"site": "attention"} | more)
    assert answer.status_code == 404 and words in answer.json()["detail"]
