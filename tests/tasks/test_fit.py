"""Training into a folder: existing files are kept, a folder in use is refused, and a stopped run is resumed."""

import io
import json
import signal
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from regard._utils import override
from regard.checkpoint import load_tensors
from regard.checkpoint.overwrite import OWN
from regard.recipes import make_run
from regard.tasks import fit, load
from regard.training import Interrupted

QUIET = Console(quiet=True)


def same_weights(one, other):
    first, second = (load_tensors(folder / "model.safetensors") for folder in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_folder_has_all_documented_files(fitted):
    folder = fitted.result.folder
    files = {name for name in OWN if set(name).isdisjoint("*/")}
    assert {path.name for path in folder.iterdir()} == {*files, "training"}
    config = json.loads((folder / "config.json").read_text())
    assert config["recipe"] == "copy" and config["model"]["source_vocab_size"] == 9
    assert "exact_match" in fitted.result.metrics and "perplexity" in fitted.result.metrics
    card = (folder / "README.md").read_text()
    assert "bahdanau on copy" in card and "| parameters |" in card


def test_equal_seeds_give_equal_models(tiny_run, fitted, tmp_path):
    fit(tiny_run, tmp_path / "again", console=QUIET)
    assert same_weights(fitted.result.folder, tmp_path / "again")
    fit(override(tiny_run, "training.seed=1"), tmp_path / "other", console=QUIET)
    assert not same_weights(fitted.result.folder, tmp_path / "other")


def test_a_folder_in_use_is_refused_and_unchanged(tiny_run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"is not empty\. Choose another --out"):
        fit(tiny_run, tmp_path, console=QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(ValueError, match="is a file, expected a folder"):
        fit(tiny_run, tmp_path / "notes.txt", console=QUIET)
    with pytest.raises(ValueError, match="cannot be both resumed and overwritten"):
        fit(tiny_run, tmp_path, resume=True, overwrite=True, console=QUIET)
    with pytest.raises(FileNotFoundError, match=r"there is no .*nothing to resume"):
        fit(tiny_run, tmp_path / "nothing", resume=True, console=QUIET)


def test_a_stale_lock_does_not_make_a_folder_used(tiny_run, tmp_path):
    (tmp_path / ".lock").touch()
    fit(tiny_run, tmp_path, console=QUIET)
    assert (tmp_path / "model.safetensors").exists() and not (tmp_path / ".lock").exists()


def test_overwriting_removes_the_old_run_and_nothing_else(tiny_run, tmp_path):
    fit(tiny_run, tmp_path, console=QUIET)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "evaluation-test.json").write_text("{}")
    fit(override(tiny_run, "training.steps=2"), tmp_path, overwrite=True, console=QUIET)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "evaluation-test.json").exists()
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [2]


@pytest.mark.parametrize("change", ["training.compute.step=graphed", "training.schedule.name=foo"])
def test_invalid_settings_leave_the_old_run_unchanged(change, tiny_run, tmp_path):
    fit(tiny_run, tmp_path, console=QUIET)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=r"graphed step needs|schedule"):
        fit(override(tiny_run, change), tmp_path, overwrite=True, console=QUIET)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_files_that_no_run_wrote_are_not_overwritten(tiny_run, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match=r"holds README\.md, config\.json, but no complete run"):
        fit(tiny_run, tmp_path, overwrite=True, console=QUIET)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_other_files_remain_when_a_run_is_overwritten(tiny_run, tmp_path):
    fit(tiny_run, tmp_path, console=QUIET)
    for name in ("training/mine.txt", "tensorboard/mine.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    fit(tiny_run, tmp_path, overwrite=True, console=QUIET)
    assert [(tmp_path / name).read_text() for name in ("training/mine.txt", "tensorboard/mine.txt")] == ["mine"] * 2
    assert not (tmp_path / ".old-run").exists()


@pytest.mark.parametrize("change", ["model.hidden_size=-16", "model.hidden_size=0", "model.hidden_size=1" + "0" * 18])
def test_invalid_sizes_raise_errors_with_the_setting(change, tiny_run, tmp_path):
    with pytest.raises(ValueError, match=r"model\.hidden_size is -?\d+, expected 1 to 10,000,000"):
        fit(override(tiny_run, change), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "text", ["[]", "null", '{"progress": []}', '{"progress": {}, "optimizer": {}, "settings": {}}']
)
def test_a_state_that_training_did_not_write_is_refused(text, tiny_run, tmp_path):
    fit(tiny_run, tmp_path, console=QUIET)
    for path in tmp_path.glob("training/step-*/state.json"):
        path.write_text(text)
    with pytest.raises(ValueError, match=r"state\.json is not what training wrote|was trained with other settings"):
        fit(override(tiny_run, "training.steps=20"), tmp_path, resume=True, console=QUIET)


def rename_to_0_1(folder):
    """Put the old names of two settings into a run's files."""
    for path in (folder / "config.json", *folder.glob("training/step-*/state.json")):
        document = json.loads(path.read_text())
        settings = document["training"] if path.name == "config.json" else document["settings"]
        settings["compute"]["ahead"] = settings["compute"].pop("prefetch")
        settings["schedule"]["size"] = settings["schedule"].pop("hidden_size")
        # 0.1 recorded no checksums
        document.pop("sha256")
        path.write_text(json.dumps(document))


def test_a_run_with_the_old_names_of_settings_loads_and_resumes(tiny_run, tmp_path):
    longer = override(tiny_run, "training.steps=20")
    for name in ("old", "new"):
        fit(tiny_run, tmp_path / name, console=QUIET)
    rename_to_0_1(tmp_path / "old")
    assert load(tmp_path / "old").run == load(tmp_path / "new").run
    other = override(longer, "training.schedule.hidden_size=64")
    with pytest.raises(ValueError, match=r"training\.schedule\.hidden_size: 512 -> 64"):
        fit(other, tmp_path / "old", resume=True, console=QUIET)
    for name in ("old", "new"):
        fit(longer, tmp_path / name, resume=True, console=QUIET)
    old, new = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("old", "new"))
    assert old == new and json.loads((tmp_path / "new" / "config.json").read_text())["training"]["steps"] == 20


def test_invalid_data_leave_the_old_run_unchanged(tiny_run, tmp_path):
    fit(tiny_run, tmp_path / "run", console=QUIET)
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    run = make_run("pairs", "luong", source=tmp_path / "missing.en", target=tmp_path / "missing.de")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fit(run, tmp_path / "run", overwrite=True, console=QUIET)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_an_interrupted_and_resumed_run_equals_an_uninterrupted_one(tiny_run, fitted, tmp_path):
    def stop(record):
        if record["step"] == 1:
            signal.raise_signal(signal.SIGINT)

    # with the learning rate of a run of four steps
    run = override(tiny_run, "training.schedule.decay_steps=4", "training.every.log=1")
    fit(run, tmp_path / "straight", console=QUIET)
    with pytest.raises(Interrupted, match="--resume"):
        fit(run, tmp_path / "broken", console=QUIET, callbacks=[stop])
    resumed = fit(run, tmp_path / "broken", resume=True, console=QUIET)
    assert resumed.result.steps == 4
    assert same_weights(tmp_path / "straight", tmp_path / "broken")


def test_resuming_with_other_settings_is_refused_and_names_them(tiny_run, fitted):
    with pytest.raises(ValueError, match=r"model.hidden_size: 8 -> 16") as error:
        fit(override(tiny_run, "model.hidden_size=16"), fitted.result.folder, resume=True, console=QUIET)
    assert "Resume with the same ones, or choose another --out" in str(error.value)


def test_a_full_disk_keeps_the_last_saved_model(tiny_run, tmp_path, filling_disk):
    run = override(tiny_run, "training.steps=8")
    with filling_disk(after=6), pytest.raises(OSError, match="the disk is full"):
        fit(run, tmp_path / "run", console=QUIET)
    assert load(tmp_path / "run").translate(["a b"])[0].text is not None
    assert fit(run, tmp_path / "run", resume=True, console=QUIET).result.steps == 8


def test_dropped_pairs_are_counted(tmp_path):
    long = " ".join(["word"] * 10_000)
    texts = {"a.en": [*(f"line {n}" for n in range(30)), "", long], "a.de": [*(f"zeile {n}" for n in range(31)), long]}
    texts |= {"v.en": ["line 40", "line 41"], "v.de": ["zeile 40", ""]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    names = {"source": "a.en", "target": "a.de", "valid_source": "v.en", "valid_target": "v.de"}
    run = make_run("pairs", "luong", **{side: tmp_path / name for side, name in names.items()})
    run = override(run, "model.hidden_size=8", "model.embedding_size=8", "model.layers=1", "training.epochs=1")
    console = Console(record=True, file=io.StringIO(), width=200)
    fit(run, tmp_path / "out", console=console)
    text = console.export_text()
    assert "train: dropped 1 pairs: 1 with an empty source." in text
    assert "train: dropped 1 pairs: 1 with over 256 tokens on a side." in text
    assert "validation: dropped 1 pairs: 1 with an empty target." in text


def test_packed_and_padded_batches_give_equal_losses(tmp_path, tiny_run):
    run = override(make_run("copy", "transformer"), "model.hidden_size=16", "training.steps=4", "training.every.log=1")
    run = replace(run, data=tiny_run.data, batch=replace(run.batch, tokens=128))
    fit(run, tmp_path / "padded", console=QUIET)
    fit(override(run, "batch.packed=true"), tmp_path / "packed", console=QUIET)
    padded, packed = (
        [json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("padded", "packed")
    )
    assert packed == pytest.approx(padded, rel=1e-4)
    with pytest.raises(ValueError, match="bahdanau supports padded batches only"):
        fit(override(tiny_run, "batch.packed=true"), tmp_path / "no", console=QUIET)


def test_a_run_refused_before_training_leaves_no_files(tiny_run, tmp_path):
    with pytest.raises(ValueError, match="there is no schedule 'nothing'"):
        fit(override(tiny_run, "training.schedule.name=nothing"), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_a_run_that_cannot_be_resumed_raises_an_error_with_the_reason(tiny_run, tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match="holds no run to resume"):
        fit(tiny_run, tmp_path, resume=True, console=QUIET)


def test_several_processes_refuse_to_overwrite(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="several processes cannot overwrite"):
        fit(tiny_run, tmp_path, overwrite=True, console=QUIET)


def test_separate_vocabularies_do_not_share_embeddings(tiny_run):
    from regard.data.text import Tokenizers
    from regard.tasks.translation.run import fit_to

    run = make_run("copy", "transformer")
    pairs = tiny_run.data.read("train")
    apart = fit_to(run, Tokenizers.train(pairs, run.tokenizer, joint=False))
    assert not apart.model.shared_embeddings
    assert fit_to(run, Tokenizers.train(pairs, run.tokenizer, joint=True)).model.shared_embeddings
    assert replace(apart.model, shared_embeddings=True).source_vocab_size == 9
