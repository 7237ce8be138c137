"""A look holds what the system really did."""

import numpy as np
import pytest
import torch

from regard import load, trace
from regard.contracts import BOS, EOS, LengthLimit, PaddedTokens
from tests.studio.conftest import NAMES, TEXT

ATTENDING = [name for name in NAMES if name != "seq2seq"]


def test_a_system_without_attention_answers_and_has_no_sites(inspect):
    inspection = inspect("seq2seq")
    assert inspection["sites"] == [] and inspection["output"]
    assert [axis["name"] for axis in inspection["axes"]] == ["source", "target", "prefix"]


@pytest.mark.parametrize("name", ATTENDING)
def test_the_answer_is_the_translators_and_its_alignment_too(name, inspect, weights, folder, monkeypatch):
    monkeypatch.setattr("regard.tasks.translation.inspection.LIMIT", LengthLimit())
    text = "6 May 2024"
    inspection = inspect(name, text)
    expected = load(folder / name).translate([text], beam=1, return_weights=True)[0]
    assert inspection["output"] == expected.text
    assert inspection["log_prob"] == pytest.approx(expected.log_prob, abs=1e-4)
    sides = {axis["name"]: axis["tokens"] for axis in inspection["axes"]}
    assert sides["source"] == list(expected.source_tokens) and sides["target"] == list(expected.tokens)
    assert not inspection["sites"][0]["has_scores"]
    np.testing.assert_allclose(weights(inspection, "alignment", 0), expected.weights.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", ATTENDING)
def test_every_site_shows_what_a_trace_of_the_same_answer_shows(name, inspect, weights, folder):
    inspection = inspect(name)
    translator = load(folder / name)
    source = [*translator.tokenizers.source.encode(TEXT), EOS]
    tokens = next(axis["tokens"] for axis in inspection["axes"] if axis["name"] == "prefix")
    target = [BOS, *translator.tokenizers.target.encode("".join(tokens[1:]))]
    with torch.inference_mode(), trace(translator.model) as maps:
        translator.model(PaddedTokens.from_lists([source]), PaddedTokens.from_lists([target]))
    sites = {site["path"]: site for site in inspection["sites"] if site["has_scores"]}
    assert set(sites) == set(maps)
    sizes = {axis["name"]: len(axis["tokens"]) for axis in inspection["axes"]}
    for path, site in sites.items():
        for head in range(site["heads"]):
            values = weights(inspection, path, head)
            assert values.shape[0] == sizes[site["queries"]] and values.shape[1] == sizes[site["keys"]]
            for query, row in enumerate(values):
                attention_maps = maps[path]
                attention_map = attention_maps[0] if len(attention_maps) == 1 else attention_maps[query]
                index = query if len(attention_maps) == 1 else 0
                true = (
                    attention_map.weights[0, head, index]
                    if attention_map.weights.ndim > 3
                    else attention_map.weights[0, index]
                )
                np.testing.assert_allclose(row[: len(true)], true.numpy(), atol=1e-6)
                assert not row[len(true) :].any()


@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_a_map_in_single_precision_has_the_weights_of_every_row(name, inspect, weights, client, monkeypatch):
    inspection = inspect(name)
    site, where = inspection["sites"][-1]["path"], f"/api/inspections/{inspection['id']}"
    answer = client.get(f"{where}/weights", params={"site": site, "head": 0, "exact": True})
    exact = weights(inspection, site, 0)
    assert answer.headers["x-type"] == "float32" and float(answer.headers["x-high"]) == exact.max()
    np.testing.assert_array_equal(np.frombuffer(answer.content, "<f4").reshape(exact.shape), exact)
    monkeypatch.setattr("regard.studio.routes.inspections.MAX_EXACT", exact.size - 1)
    large = client.get(f"{where}/weights", params={"site": site, "head": 0, "exact": True})
    assert large.headers["x-type"] == "uint8" and len(large.content) == exact.size


def test_several_rows_come_at_once(inspect, weights, client):
    inspection = inspect("bahdanau")
    where, exact = f"/api/inspections/{inspection['id']}/row", weights(inspection, "attention", 0)
    answer = client.get(where, params={"site": "attention", "head": 0, "query": 1, "count": 2})
    np.testing.assert_array_equal(np.frombuffer(answer.content, "<f4").reshape(2, -1), exact[1:3])
    assert (
        client.get(where, params={"site": "attention", "head": 0, "query": 1, "count": len(exact)}).status_code == 404
    )
    assert client.get(where, params={"site": "attention", "head": 0, "query": 0, "count": 65}).status_code == 422


def test_the_same_question_has_the_same_name_and_another_text_another(inspect):
    assert inspect("bahdanau")["id"] == inspect("bahdanau")["id"]
    assert (
        inspect("bahdanau")["id"] != inspect("bahdanau", "Mar 15, 1947")["id"] != inspect("luong", "Mar 15, 1947")["id"]
    )


def test_questions_that_look_alike_have_names_of_their_own(inspect):
    request = (("5", {}), ("5", {"output": "\x01"}), ("5\0a", {"output": "b"}), ("5", {"output": "a\0b"}))
    assert len({inspect("bahdanau", text, **more)["id"] for text, more in request}) == 4


@pytest.mark.parametrize("name", ["bahdanau", "transformer", "seq2seq"])
def test_a_given_answer_is_looked_at_instead(name, inspect, folder):
    inspection = inspect(name, output="2024年3月5日")
    assert inspection["forced"] and inspection["output"] == "2024年3月5日"
    assert inspection["log_prob"] == pytest.approx(load(folder / name).score([TEXT], ["2024年3月5日"])[0], abs=1e-4)


def test_pictures_are_the_weights_in_256_steps(inspect, client, weights):
    inspection = inspect("transformer")
    site = next(site for site in inspection["sites"] if site["queries"] != site["keys"] and site["has_scores"])
    answer = client.get(f"/api/inspections/{inspection['id']}/weights", params={"site": site["path"], "head": -1})
    shape = int(answer.headers["x-queries"]), int(answer.headers["x-keys"])
    values = np.frombuffer(answer.content, np.uint8).reshape(shape) / 255 * float(answer.headers["x-high"])
    mean = np.mean([weights(inspection, site["path"], head) for head in range(site["heads"])], axis=0)
    np.testing.assert_allclose(values, mean, atol=float(answer.headers["x-high"]) / 500)


def test_bytes_are_merged_to_characters_and_marks_set_apart():
    from regard.data.text.token_labels import merge_bytes

    tokens = ["a", "<0xE8>", "<0x8B>", "<0xB9>", "<0xE8>", "<0x8B>", "b", "<0x41>", "<eos>", "<unk>"]
    result = [(piece.text, piece.first, piece.last, piece.mark) for piece in merge_bytes(tokens, marks=[8])]
    assert result == [
        ("a", 0, 0, False), ("苹", 1, 3, False), ("<0xE8>", 4, 4, False), ("<0x8B>", 5, 5, False), ("b", 6, 6, False),
        ("A", 7, 7, False), ("<eos>", 8, 8, True), ("<unk>", 9, 9, False),
    ]  # fmt: skip


def test_old_looks_make_room_and_say_so(client, studio, monkeypatch):
    monkeypatch.setattr("regard.studio.inspection_cache.MAX_INSPECTIONS", 2)
    names = [
        client.post("/api/inspections", json={"model": "bahdanau", "text": f"Mar {day}, 1950"}).json()["id"]
        for day in (1, 2, 3)
    ]
    answer = client.get(f"/api/inspections/{names[0]}/heads")
    assert answer.status_code == 404 and "no longer cached" in answer.json()["detail"]
    assert client.get(f"/api/inspections/{names[2]}/heads").status_code == 200


@pytest.mark.parametrize(("text", "words"), [("", "Type a word"), ("   ", "Type a word")])
def test_nothing_to_read_is_a_sentence(client, text, words):
    answer = client.post("/api/inspections", json={"model": "bahdanau", "text": text})
    assert answer.status_code == 422 and words in answer.json()["detail"]


def test_a_text_that_is_too_long_is_told_by_how_much(client):
    answer = client.post("/api/inspections", json={"model": "bahdanau", "text": "x" * 4100})
    assert answer.json()["detail"] == "body.text has 4,100 characters; at most 4,000 are allowed. Shorten it."


def test_a_text_whose_weights_would_not_fit_is_refused_before_they_are_formed(client, monkeypatch):
    monkeypatch.setattr("regard.studio.inspections.MAX_NUMBERS", 1000)
    answer = client.post("/api/inspections", json={"model": "transformer", "text": "Mar 15, 1947 and Mar 16, 1947"})
    assert answer.status_code == 422 and "Shorten the text" in answer.json()["detail"]


def test_an_unknown_system_names_the_nearest(client):
    answer = client.post("/api/inspections", json={"model": "bahdanu", "text": "x"})
    assert answer.status_code == 404 and "'bahdanau'" in answer.json()["detail"]


def test_the_exported_page_holds_the_tokens_and_every_head(inspect, client):
    inspection = inspect("transformer")
    page = client.get(
        f"/api/inspections/{inspection['id']}/page", params={"site": "decoder.0.cross_attention", "lang": "zh"}
    )
    assert page.status_code == 200 and "头 3" in page.text and "源句" in page.text and "最大权重在" in page.text
    assert "http" not in page.text.replace("http://www.w3.org", "")


def test_unknown_tokens_have_the_typed_text_on_the_axis(inspect):
    inspection = inspect("bahdanau", "我 May")
    axis = next(axis for axis in inspection["axes"] if axis["name"] == "source")
    assert inspection["unknown"] == ["我"]
    assert axis["texts"] == ["我", " ", "M", "a", "y", ""] and axis["unknown"] == [0]
    assert next(axis for axis in inspection["axes"] if axis["name"] == "target")["texts"] == []


def test_a_card_says_what_its_system_reads_and_writes(client, inspect_small, small_client):
    cards = {card["name"]: card for card in client.get("/api/state").json()["models"]}
    assert cards["bahdanau"]["reads"]["en"] == "dates in English from 1900 to 2099"
    assert cards["bahdanau"]["writes"] == {"en": "the dates in Chinese", "zh": "中文日期"}
    assert cards["example:apple"]["reads"]["zh"]
    cards = {card["name"]: card for card in small_client.get("/api/state").json()["models"]}
    assert cards["cnn"]["reads"]["en"] == "sentences like those of questions.txt" and cards["cnn"]["samples"] == []
    assert cards["cnn"]["writes"]["en"] == "one of 3 classes: HUM, LOC, NUM"
    assert cards["gpt"]["writes"]["en"] == "its continuation"


def test_a_request_is_cancelled_by_the_name_that_its_client_chose(studio, client, monkeypatch):
    import threading

    from regard.contracts import check_cancelled

    started = threading.Event()

    def steps_without_end(model, request):
        started.set()
        while True:
            check_cancelled()

    monkeypatch.setattr("regard.studio.routes.pages.inspections.predict_one", steps_without_end)
    answers = []
    body = {"model": "bahdanau", "text": TEXT}
    request = threading.Thread(
        target=lambda: answers.append(client.post("/api/predict", json=body, headers={"X-Job": "mine"}))
    )
    request.start()
    assert started.wait(20)
    assert client.delete("/api/jobs/other").status_code == 404
    assert client.delete("/api/jobs/mine").status_code == 204
    request.join(20)
    assert answers[0].status_code == 499 and "cancelled" in answers[0].json()["detail"]
    assert studio.jobs.num_waiting == 0


@pytest.mark.parametrize("text", ["", "  ", "\n\t", "▁", "\x1f"])
@pytest.mark.parametrize("path", ["predict", "inspections"])
def test_a_blank_text_is_refused_with_one_sentence_everywhere(small_client, path, text):
    for model in ("bahdanau", "cnn", "gpt"):
        answer = small_client.post(f"/api/{path}", json={"model": model, "text": text})
        assert answer.status_code == 422 and answer.json() == {"detail": "the text has no tokens. Type a word."}


@pytest.mark.parametrize("path", ["predict", "inspections", "generate"])
def test_an_error_has_nothing_of_an_earlier_answer(small_client, path):
    body = {"model": "gpt", "text": "the cat"}
    assert small_client.post(f"/api/{path}", json=body).status_code == 200
    answer = small_client.post(f"/api/{path}", json=body | {"text": "the cat" * 1000})
    assert answer.status_code == 422 and list(answer.json()) == ["detail"]
    assert answer.headers["cache-control"] == "no-store" and "Shorten it" in answer.json()["detail"]
