"""The registry: models, their names, and paths that are not followed."""

import json
import os
import shutil
import sys

import pytest
from fastapi.testclient import TestClient

from regard.serving import RefusedError
from regard.studio.app import make_app
from regard.studio.model_registry import ModelRegistry
from regard.studio.state import Studio
from tests.studio.conftest import HOST, TOKEN


def test_cards_describe_a_system(client, folder):
    state = client.get("/api/state").json()
    cards = {card["name"]: card for card in state["models"]}
    systems = [name for name, card in cards.items() if not card["fixed_input"]]
    assert systems == ["seq2seq", "bahdanau", "luong", "lstmn", "conv_seq2seq", "transformer"]
    card = cards["bahdanau"]
    from regard import load
    from regard.tasks import count_parameters

    assert card["parameters"] == count_parameters(load(folder / "bahdanau").model)
    assert card["title"] == "RNNsearch (Bahdanau)" and card["languages"] == ["en", "zh"] and card["samples"]
    assert card["quality"]["metric"] == "exact match" and card["quality"]["split"] == "test"
    assert sum(bucket["count"] for bucket in card["quality"]["by_length"]) == card["quality"]["examples"] == 8
    assert cards["luong"]["quality"] is None and state["demo_training"] is None and not state["problems"]


def test_a_broken_checkpoint_is_named_and_others_are_listed(folder, tmp_path):
    shutil.copytree(folder / "bahdanau", tmp_path / "good")
    shutil.copytree(folder / "bahdanau", tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "config.json").write_text('{"a": 1}')
    (tmp_path / "odd" / "model.safetensors").write_bytes(b"")
    cards, problems = ModelRegistry([tmp_path]).cards()
    assert [card.name for card in cards if not card.fixed_input] == ["good"]
    assert sorted(problem.detail.split(":")[0] for problem in problems) == ["cut", "odd"]


def test_one_invalid_run_does_not_break_the_list(folder, tmp_path):
    for name in ("good", "looped", "typed", "nested", "b\udcffd", "piped"):
        shutil.copytree(folder / "bahdanau", tmp_path / name)
    (tmp_path / "looped" / "metrics.jsonl").unlink()
    (tmp_path / "looped" / "metrics.jsonl").symlink_to("metrics.jsonl")
    config = json.loads((tmp_path / "typed" / "config.json").read_text())
    (tmp_path / "typed" / "config.json").write_text(json.dumps(config | {"recipe": []}))
    (tmp_path / "nested" / "evaluation-test.json").write_text("[" * 100_000)
    (tmp_path / "piped" / "tokenizer.json").unlink()
    os.mkfifo(tmp_path / "piped" / "tokenizer.json")
    config["data"]["content"]["max_dates"] = 10**9
    (tmp_path / "good" / "config.json").write_text(json.dumps(config))
    registry = ModelRegistry([tmp_path])
    cards, problems = registry.cards()
    assert sorted(card.name for card in cards if not card.fixed_input) == ["good", "nested"]
    assert sorted(problem.detail.split(":")[0] for problem in problems) == ["b\ufffdd", "typed"]
    assert all(problem.model_dump_json() for problem in problems)
    from regard.studio.runs import list_runs

    assert len(list_runs(registry)) == 4


def test_a_tokenizer_of_another_run_is_refused(folder, tmp_path):

    from regard.serving.job_queue import RefusedError

    shutil.copytree(folder / "bahdanau", tmp_path / "mixed")
    # there are more letters in English dates than in Chinese ones
    shutil.copy(tmp_path / "mixed" / "tokenizer.json", tmp_path / "mixed" / "tokenizer.target.json")
    with pytest.raises(RefusedError, match="they belong to different runs"):
        ModelRegistry([tmp_path]).load("mixed")


def test_names_are_as_short_as_uniqueness_allows(folder, tmp_path):
    for name in ("one/bahdanau", "two/bahdanau", "two/luong"):
        shutil.copytree(folder / name.split("/")[1], tmp_path / name)
    assert set(ModelRegistry([tmp_path]).folders()) == {"one/bahdanau", "two/bahdanau", "luong"}
    assert set(ModelRegistry([tmp_path / "two", tmp_path / "two" / "luong"]).folders()) == {"bahdanau", "luong"}


def test_links_that_lead_outside_are_not_followed(folder, tmp_path):
    (tmp_path / "inside").mkdir()
    os.symlink(folder / "bahdanau", tmp_path / "inside" / "link")
    os.symlink(folder, tmp_path / "inside" / "all")
    assert ModelRegistry([tmp_path / "inside"]).folders() == {}


def test_a_retrained_model_is_loaded_again(folder, tmp_path):
    shutil.copytree(folder / "bahdanau", tmp_path / "bahdanau")
    registry = ModelRegistry([tmp_path])
    first = registry.load("bahdanau")
    assert registry.load("bahdanau") is first
    os.utime(tmp_path / "bahdanau" / "model.safetensors", ns=(1, 1))
    assert registry.load("bahdanau") is not first


def test_runs_are_read_while_they_are_written(folder, tmp_path):
    from regard.studio.runs import list_runs, read_run_lines

    shutil.copytree(folder / "bahdanau", tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = [{"step": step, "loss": 1 / step, "validation": {"loss": 2.0}, "note": "x"} for step in (1, 2)]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "lo')
    registry = ModelRegistry([tmp_path])
    result = read_run_lines(registry, "run", 0)
    assert [line.step for line in result.lines] == [1, 2]
    assert metrics.read_bytes()[result.next :] == b'{"step": 3, "lo', "the incomplete line is left for the next call"
    assert result.lines[1].values == {"loss": 0.5, "validation.loss": 2.0}
    with metrics.open("a") as file:
        file.write('ss": 0.1}\n')
    later = read_run_lines(registry, "run", result.next)
    assert [line.step for line in later.lines] == [3] and later.file == result.file
    metrics.write_text('{"step": 1, "loss": 9}\n')
    assert read_run_lines(registry, "run", 0).file != result.file
    card = list_runs(registry)[0]
    assert card.step == 1 and card.steps == 2 and card.live and card.system == "bahdanau"
    os.utime(metrics, (1, 1))
    assert not list_runs(registry)[0].live


@pytest.mark.parametrize("text", ["not json\n", "[]\n", '{"loss": 1}\n', '{"step": "x"}\n', "\x00\n", ""])
def test_invalid_lines_are_skipped(folder, tmp_path, text):
    from regard.studio.runs import read_run_lines

    shutil.copytree(folder / "bahdanau", tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text(text)
    assert read_run_lines(ModelRegistry([tmp_path]), "run", 0).lines == []


def test_predict_equals_the_translator(client, folder):
    from regard import load

    answer = client.post("/api/predict", json={"model": "luong", "text": "5 May 2024"}).json()
    assert answer["output"] == load(folder / "luong").translate(["5 May 2024"])[0].text


def test_every_experiment_has_a_chinese_claim(client):
    cards = client.get("/api/lessons").json()
    assert {card["kind"] for card in cards} == {"lesson", "experiment"}
    assert all(any("\u4e00" <= letter <= "\u9fff" for letter in card["summary"]["zh"]) for card in cards)
    for card in cards:
        if card["kind"] == "lesson":
            assert client.get(f"/api/lessons/{card['name']}").status_code == 200
    assert client.get("/api/lessons/kernel_fit", params={"c": "width:x"}).status_code == 422
    assert client.get("/api/lessons/nothing").status_code == 404


def test_a_task_of_a_users_own_file_comes_last(folder, monkeypatch):
    registry = ModelRegistry([folder])
    cards, problems = registry.checkpoint_cards()
    monkeypatch.setattr("regard.studio.model_registry.all_tasks", dict)
    others, other_problems = registry.checkpoint_cards()
    assert sorted(card.name for card in others) == sorted(card.name for card in cards)
    assert [card.name for card in others] == sorted(card.name for card in cards)
    assert len(other_problems) == len(problems)


class RustPanic(BaseException):
    """What pyo3 raises is no Exception either."""


@pytest.mark.parametrize(
    "error",
    [
        KeyError("nope"),
        TypeError("'int' object"),
        AttributeError("'list' object"),
        RecursionError(),
        RustPanic("regex"),
    ],
)
def test_any_error_of_loading_is_a_sentence_and_the_folder_is_listed_with_it(
    folder, tmp_path, monkeypatch, error, caplog
):
    shutil.copytree(folder / "bahdanau", tmp_path / "hostile")
    shutil.copytree(folder / "bahdanau", tmp_path / "good")
    registry = ModelRegistry([tmp_path])
    names = {card.name for card in registry.checkpoint_cards()[0]}
    assert names == {"hostile", "good"}

    def fail(path):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("regard.studio.model_registry.load", fail)
        with pytest.raises(RefusedError, match="hostile cannot be loaded: "):
            registry.load("hostile")
    assert type(error).__name__ in caplog.text and "Traceback" in caplog.text
    cards, problems = registry.checkpoint_cards()
    assert [card.name for card in cards] == ["good"]
    assert [problem.detail[:34] for problem in problems] == ["hostile: hostile cannot be loaded:"]
    # other files may be sound
    os.utime(tmp_path / "hostile" / "config.json", ns=(1, 1))
    assert {card.name for card in registry.checkpoint_cards()[0]} == names
    assert registry.load("hostile").predictor.samples()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: rewrite_header(path, {"aliases": {"a": "nope"}, "facts": {}}),
        lambda path: rewrite_header(path, {"aliases": [1, 2], "facts": {}}),
        lambda path: path.with_name("tokenizer.json").write_text('{"model": 1}'),
        lambda path: path.with_name("tokenizer.json").write_text("[" * 100_000),
    ],
)
def test_hostile_files_are_answered_with_a_sentence(folder, tmp_path, damage):
    shutil.copytree(folder / "bahdanau", tmp_path / "hostile")
    shutil.copytree(folder / "luong", tmp_path / "good")
    damage(tmp_path / "hostile" / "model.safetensors")
    app = make_app(Studio(registry=ModelRegistry([tmp_path])), token=TOKEN, hosts=[HOST])
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(app, base_url=f"http://{HOST}", headers=headers, raise_server_exceptions=False) as client:
        answer = client.post("/api/inspections", json={"model": "hostile", "text": "5 May 2024"})
        assert answer.status_code == 422 and "hostile cannot be loaded" in answer.json()["detail"]
        (problem,) = client.get("/api/state").json()["problems"]
        assert problem["detail"].startswith("hostile: ")
        assert client.post("/api/predict", json={"model": "good", "text": "5 May 2024"}).status_code == 200


def rewrite_header(path, metadata):
    """Replace the metadata of a safetensors file."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = {"regard": json.dumps(metadata)}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


def test_cards_are_made_without_building_a_model(folder, tmp_path, monkeypatch):
    shutil.copytree(folder / "transformer", tmp_path / "huge")
    config = json.loads((tmp_path / "huge" / "config.json").read_text())
    config["model"]["num_layers"] = 10_000_000
    (tmp_path / "huge" / "config.json").write_text(json.dumps(config))

    def fail(*_):
        raise AssertionError("a model was built")

    # by their modules, since `regard.tasks.load` is a function
    monkeypatch.setattr(sys.modules["regard.tasks.build"], "build", fail)
    monkeypatch.setattr(sys.modules["regard.tasks.load"], "build_for", fail)
    cards, problems = ModelRegistry([tmp_path]).checkpoint_cards()
    assert len(cards) + len(problems) == 1
