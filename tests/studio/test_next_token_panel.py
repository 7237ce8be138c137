"""Language models in the studio: what is shown of a text is what torch computes, to the last digit that matters."""

import contextlib
import io
import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import regard
from regard.contracts import leaves
from regard.tasks.language_modeling.inspection import named_leaves
from tests.small_models import LANGUAGE, SENTENCES, TEXT, TEXTS
from tests.studio.conftest import HOST, TOKEN

ATTENDING = ("lstmn", "key_value_predict", "gpt")
QUANTITIES = ("query", "key", "value", "score", "allowed", "weight", "product", "context")


@pytest.fixture(scope="module")
def doubles(small_folder):
    """Every model in double precision."""
    return {name: regard.load(small_folder / name, device="cpu").model.double() for name in LANGUAGE}


@pytest.fixture(scope="module")
def ids(small_folder):
    return {name: regard.load(small_folder / name).encode(TEXT) for name in LANGUAGE}


def exact(small_client, inspection, site, head):
    """The weights of a head, row by row."""
    shape = small_client.get(
        f"/api/inspections/{inspection['id']}/weights", params={"site": site, "head": head}
    ).headers
    rows = [
        small_client.get(
            f"/api/inspections/{inspection['id']}/row", params={"site": site, "head": head, "query": query}
        ).content
        for query in range(int(shape["x-queries"]))
    ]
    return np.stack([np.frombuffer(row, "<f4") for row in rows])


def test_all_kinds_stand_on_one_registry(small_client):
    state = small_client.get("/api/state").json()
    kinds = {card["name"]: card["task"] for card in state["models"] if not card["fixed_input"]}
    expected = {
        "bahdanau": "translation",
        **dict.fromkeys(LANGUAGE, "language_modeling"),
        **dict.fromkeys(SENTENCES, "text_classification"),
    }
    assert kinds == expected and list(kinds) == list(expected) and not state["problems"]
    titles = {card["name"]: (card["title"], card["problem"]) for card in small_client.get("/api/runs").json()}
    assert titles["lstmn"] == ("LSTMN", None) and titles["cnn"] == ("CNN for sentences", None)
    line = {one["key"]: one["model"] for one in small_client.get("/api/timeline").json()}
    assert (line["language_modeling/lstmn"], line["translation/lstmn"], line["text_classification/cnn"]) == (
        "lstmn",
        None,
        "cnn",
    )


@pytest.mark.parametrize("name", LANGUAGE)
def test_every_probability_is_that_of_double_precision(name, inspect_small, small_client, doubles, ids):
    inspection = inspect_small(name)
    with torch.inference_mode():
        logits = doubles[name](torch.tensor([ids[name]]))[0]
    shares = logits.softmax(-1)
    reading = small_client.get(f"/api/inspections/{inspection['id']}/tokens").json()
    truth = shares[torch.arange(len(ids[name]) - 1), torch.tensor(ids[name][1:])]
    assert reading["log_probs"][0] is None and reading["ranks"][0] is None
    np.testing.assert_allclose(np.exp(reading["log_probs"][1:]), truth.numpy(), atol=1e-6)
    assert reading["perplexity"] == pytest.approx(float((-truth.log().mean()).exp()), rel=1e-5)
    for index in range(len(ids[name])):
        data = small_client.get(f"/api/inspections/{inspection['id']}/next", params={"position": index}).json()
        best = [one["id"] for one in data["candidates"]]
        result = np.array([one["probability"] for one in data["candidates"]])
        assert len(best) == 10 and (np.diff(result) <= 1e-9).all()
        np.testing.assert_allclose(result, shares[index, best].numpy(), atol=1e-6)
        np.testing.assert_allclose([one["logit"] for one in data["candidates"]], logits[index, best].numpy(), atol=1e-5)
        made_again = np.array([one["exponential"] for one in data["candidates"]]) / data["total"]
        np.testing.assert_allclose(made_again, result, atol=1e-12)
        if index + 1 < len(ids[name]):
            assert data["true"]["id"] == ids[name][index + 1]
            assert data["true"]["rank"] == reading["ranks"][index + 1]
        else:
            assert data["true"] is None


@pytest.mark.parametrize("name", ATTENDING)
def test_every_weight_is_that_of_double_precision(name, inspect_small, small_client, doubles, ids):
    inspection, size = inspect_small(name), len(ids[name])
    assert [axis["name"] for axis in inspection["axes"]] == ["text"] and len(inspection["axes"][0]["tokens"]) == size
    with torch.inference_mode(), regard.trace(doubles[name]) as maps:
        doubles[name].features(torch.tensor([ids[name]]), doubles[name].start(1))
    for site in inspection["sites"]:
        reads = maps[site["path"]]
        for head in range(site["heads"]):
            result = exact(small_client, inspection, site["path"], head)
            assert result.shape == (size, size)
            assert (np.triu(result, 1) == 0).all()
            for query in range(size):
                if name == "lstmn":
                    # the tape before this token: its last cells are of the tokens before
                    line = reads[query].weights[0, 0].numpy()[-query:] if query else np.zeros(0)
                    first = query - len(line)
                    np.testing.assert_allclose(result[query, first:query], line, atol=1e-6)
                    assert not result[query, : max(query - 4, 0)].any()
                elif name == "gpt":
                    np.testing.assert_allclose(result[query], reads[0].weights[0, head, query].numpy(), atol=1e-6)
                else:
                    np.testing.assert_allclose(result[query], reads[0].weights[0, query, 5:].numpy(), atol=1e-6)


def printed(snippet):
    outputs = io.StringIO()
    with contextlib.redirect_stdout(outputs):
        exec(snippet, {})
    return outputs.getvalue()


@pytest.mark.parametrize("name", ATTENDING)
def test_numbers_are_what_their_snippets_print(name, inspect_small, small_client):
    inspection, chance = inspect_small(name), random.Random(name)
    size = len(inspection["axes"][0]["tokens"])
    for index in range(16):
        site, quantity = chance.choice(inspection["sites"]), QUANTITIES[index % len(QUANTITIES)]
        parameters = {"site": site["path"], "head": chance.randrange(site["heads"]), "query": chance.randrange(2, size)}
        values = small_client.get(f"/api/inspections/{inspection['id']}/compute", params=parameters).json()
        more = {"key": chance.randrange(values["num_keys"]), "dimension": chance.randrange(5), "quantity": quantity}
        number = small_client.get(f"/api/inspections/{inspection['id']}/number", params=parameters | more).json()
        assert float(printed(number["snippet"])) == pytest.approx(number["value"], abs=1e-6, rel=1e-6), more


@pytest.mark.parametrize("name", ATTENDING)
def test_the_pipeline_adds_up(name, inspect_small, small_client):
    inspection = inspect_small(name)
    parameters = {"site": inspection["sites"][0]["path"], "query": 7}
    values = small_client.get(f"/api/inspections/{inspection['id']}/compute", params=parameters).json()
    weights, scores = np.array(values["weights"]), np.array(values["scores"])
    raised = np.where(values["allowed"], np.exp(scores - scores[values["allowed"]].max()), 0)
    np.testing.assert_allclose(weights, raised / raised.sum(), atol=1e-6)
    np.testing.assert_allclose(weights @ np.array(values["values"]), values["context"], atol=1e-6)


@pytest.mark.parametrize("name", LANGUAGE)
def test_the_readout_is_what_its_snippet_prints(name, inspect_small, small_client):
    data = small_client.get(f"/api/inspections/{inspect_small(name)['id']}/next", params={"position": 3}).json()
    lines = [line.split() for line in printed(data["snippet"]).splitlines()]
    assert [int(line[0]) for line in lines] == [one["id"] for one in data["candidates"]]
    for line, one in zip(lines, data["candidates"], strict=True):
        assert float(line[1]) == pytest.approx(one["logit"], abs=1e-6, rel=1e-6)
        assert float(line[2]) == pytest.approx(one["probability"], abs=1e-6)


@pytest.mark.parametrize("name", LANGUAGE)
def test_the_bytes_are_those_of_the_state(name, inspect_small, small_client, small_folder, ids):
    reading = small_client.get(f"/api/inspections/{inspect_small(name)['id']}/state").json()
    model = regard.load(small_folder / name, device="cpu").model
    with torch.inference_mode():
        state = model.start(1)
        for index, token in enumerate(ids[name]):
            state = model.step(torch.tensor([token]), state).state
            tensors = leaves(state)
            assert reading["allocated"][index] == sum(one.numel() * one.element_size() for one in tensors)
            assert reading["allocated"][index] == sum(part["bytes"][index] for part in reading["parts"])
            assert {id(one) for _, one, _ in named_leaves(state)} == {id(one) for one in tensors}
    assert [part["shape"] for part in reading["parts"]] == [list(one.shape) for one in tensors]
    grows = len(set(reading["filled"])) > 1
    assert grows == (name == "gpt")
    if grows:
        # keys and values of 2 layers of 16 numbers, and the token itself
        assert np.diff(reading["filled"]).tolist() == [2 * 2 * 16 * 4 + 8] * (len(ids[name]) - 1)


def test_a_text_goes_on_as_the_writer_goes_on(small_client, small_folder):
    parameters = {"model": "gpt", "text": "the cat", "max_tokens": 6, "temperature": 0.7, "top_p": 0.9, "seed": 3}
    answer = small_client.post("/api/generate", json=parameters).json()
    writer = regard.load(small_folder / "gpt")
    result = writer.generate(["the cat"], max_tokens=6, temperature=0.7, top_p=0.9, seed=3)[0]
    assert answer["text"] == result.text and [one["token"] for one in answer["tokens"]] == list(result.tokens)
    np.testing.assert_allclose([one["log_prob"] for one in answer["tokens"]], result.log_probs, atol=1e-6)
    assert small_client.post("/api/generate", json={"model": "lstm", "text": "", "max_tokens": 2}).status_code == 200
    assert small_client.post("/api/generate", json={"model": "lstm", "text": "zebra"}).json()["unknown"] == ["zebra"]


@pytest.mark.parametrize("name", ATTENDING)
def test_heads_and_swaps_serve_here_too(name, inspect_small, small_client):
    inspection = inspect_small(name)
    where, site = f"/api/inspections/{inspection['id']}", inspection["sites"][-1]
    assert len(small_client.get(f"{where}/heads").json()["heads"]) == sum(one["heads"] for one in inspection["sites"])
    same = small_client.post(f"{where}/swap", json={"site": site["path"]}).json()
    assert same["before"]["tokens"] == same["after"]["tokens"] and len(same["before"]["tokens"]) == 8
    assert same["before"]["log_prob"] == pytest.approx(same["after"]["log_prob"], abs=1e-5)
    np.testing.assert_allclose(same["entropy_before"], same["entropy_after"], atol=1e-5)
    for change in ({"mask": "none"}, {"mask": "window", "window": 1}, {"align": "sparsemax"}, {"position": "alibi"}):
        swapped = small_client.post(f"{where}/swap", json={"site": site["path"], **change})
        assert swapped.status_code == 200, swapped.text
        result = exact(small_client, swapped.json(), site["path"], 0)
        assert (np.triu(result, 1) == 0).all()
        np.testing.assert_allclose(result[2:].sum(-1), 1, atol=1e-5)
    without = small_client.post(f"{where}/ablate", json={"site": site["path"], "head": 0}).json()
    assert without["before"]["log_prob_of_first"] == pytest.approx(inspection["log_prob"], abs=1e-4)
    assert without["after"]["log_prob_of_first"] != without["before"]["log_prob_of_first"]
    assert "<html" in small_client.get(f"{where}/page", params={"site": site["path"]}).text


def test_a_text_that_fills_the_context_is_read_as_far(inspect_small):
    inspection = inspect_small("gpt", "the cat sat on the mat . " * 10)
    # 24 tokens, then the last 12 of them and 12 more, and so on
    assert len(inspection["axes"][0]["tokens"]) == 22 and inspection["num_dropped"] == 70 - 22
    assert inspection["drops_start"]
    one = inspect_small("gpt", "the")
    assert len(one["axes"][0]["tokens"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("inspections", {"model": "gpt", "text": "  "}, 422, "the text has no tokens"),
        ("inspections", {"model": "gpt", "text": "a" * 5000}, 422, "Shorten it"),
        ("inspections", {"model": "gpt", "text": "a", "output": "b"}, 422, "Leave out the output"),
        ("inspections", {"model": "gtp", "text": "a"}, 404, "nearest is 'gpt'"),
        ("generate", {"model": "nobody", "text": "a"}, 404, "no model called 'nobody'"),
        ("generate", {"model": "bahdanau", "text": "a"}, 422, "POST /api/predict"),
        ("generate", {"model": "cnn", "text": "a"}, 422, "POST /api/predict"),
        ("generate", {"model": "example:apple", "text": "a"}, 422, "token by token"),
        ("generate", {"model": "gpt", "text": "a", "max_tokens": 9999}, 422, "max_tokens"),
        ("generate", {"model": "gpt", "text": "a", "top_p": 0}, 422, "top_p"),
        ("predict", {"model": "example:apple", "text": "a"}, 422, "no output to predict"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(small_client, path, body, status, words):
    answer = small_client.post(f"/api/{path}", json=body)
    assert answer.status_code == status and words in answer.json()["detail"]


def test_questions_to_the_wrong_kind_are_refused(inspect_small, small_client):
    for name in ("cnn", "bahdanau"):
        inspection = small_client.post("/api/inspections", json={"model": name, "text": "5 May 2024"}).json()
        assert small_client.get(f"/api/inspections/{inspection['id']}/state").status_code == 422
        assert small_client.get(f"/api/inspections/{inspection['id']}/tokens").status_code == 422
        assert small_client.get(f"/api/inspections/{inspection['id']}/next", params={"position": 0}).status_code == 422
    inspection = inspect_small("gpt")
    assert small_client.get(f"/api/inspections/{inspection['id']}/classes").status_code == 422
    assert small_client.get(f"/api/inspections/{inspection['id']}/next", params={"position": 999}).status_code == 404


@pytest.mark.parametrize("name", ["gpt", "lstmn", "structured_self_attention"])
def test_nothing_that_fits_the_schema_breaks_the_server(name, inspect_small, small_client):
    pytest.importorskip("schemathesis")
    from tests.studio.test_schema import OPERATIONS

    inspection = inspect_small(name, TEXTS[name])
    site = inspection["sites"][0]["path"]
    parameters = [one for one in OPERATIONS if "/inspections" in one.path or one.path == "/api/generate"]
    assert len(parameters) >= 13
    for operation in parameters:

        @settings(
            max_examples=3, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True, database=None
        )
        @given(case=operation.as_strategy())
        def ask(case):
            if "{name}" in case.path:
                case.path_parameters["name"] = inspection["id"]
            if "site" in (case.query or {}):
                case.query["site"] = site
            if isinstance(case.body, dict):
                known = {"model": inspection["model"], "site": site, "max_tokens": 3}
                case.body |= {key: value for key, value in known.items() if key in case.body}
            sent = case.as_transport_kwargs(base_url=f"http://{HOST}")
            sent["headers"] = {**sent.get("headers", {}), "Authorization": f"Bearer {TOKEN}"}
            sent.pop("cookies", None)
            assert small_client.request(**sent).status_code < 500

        ask()
