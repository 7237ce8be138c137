"""A small version of benchmarks/faults.py: corrupted folders in this process, and what counts as a defect."""

import random
import shutil
from functools import partial

import pytest
from rich.console import Console

from benchmarks import corruptions
from benchmarks.corruptions import HARMS, attempt, corrupt
from benchmarks.faults import SETTINGS, final_state, unreadable
from regard._utils import override
from regard.recipes import make_run
from regard.tasks import fit

# only what is corrupted: a checkpoint with averages, a config, tokenizers and a report
STEPS = ("training.steps=4", "training.every.save=2", "training.every.validate=2", "training.schedule.decay_steps=4")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "source"
    run = override(make_run("copy", "bahdanau"), *SETTINGS, *STEPS)
    fit(run, folder, console=Console(quiet=True))
    corruptions.evaluate(folder)
    return folder


def test_a_corrupted_folder_is_refused_or_gives_the_same(source, tmp_path, capfd):
    actions = {"answer": corruptions.answer, "resume": partial(corruptions.resume, steps=5)}
    counts, defects = corrupt(source, tmp_path, count=20, seed=0, actions=actions, run=attempt)
    assert not defects
    assert all(sum(outcomes.values()) == 20 for outcomes in counts.values())
    # the library of the tokenizers prints its panics
    capfd.readouterr()


@pytest.mark.parametrize("harm", HARMS)
def test_every_harm_changes_the_file(source, tmp_path, harm):
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        path = shutil.copytree(source, tmp_path / name.partition(".")[0]) / name
        before = path.read_bytes()
        HARMS[harm](path, random.Random(3))
        assert not path.is_file() or path.read_bytes() != before


def test_what_is_no_sentence_is_a_defect(tmp_path):
    def fail(error):
        def action(folder):
            raise error

        return action

    assert attempt(fail(ValueError("the file is damaged, restore it")), tmp_path, "x").outcome == "refused"
    assert attempt(fail(KeyError("nope")), tmp_path, "x").outcome == "traceback"
    assert attempt(fail(ValueError("nope")), tmp_path, "x").outcome == "traceback"
    assert attempt(lambda folder: "x", tmp_path, "x").outcome == "same"
    assert attempt(lambda folder: "y", tmp_path, "x").outcome == "other"


def test_unreadable_files_and_other_states_are_found(source, tmp_path):
    folder = shutil.copytree(source, tmp_path / "copy")
    assert unreadable(folder) == [] and final_state(folder) == final_state(source)
    path = next(folder.glob("training/step-*/optimizer.safetensors"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert [problem.partition(":")[0] for problem in unreadable(folder)] == [str(path)]
    assert final_state(folder) != final_state(source)
    shutil.copytree(source, folder / ".training.01234567.part")
    assert len(unreadable(folder)) == 1, "scratch of a killed process has no name of its own"
