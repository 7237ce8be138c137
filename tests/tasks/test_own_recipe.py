"""A recipe and a corpus in a user's own file: trained, loaded, resumed, evaluated; runs of 0.1; a missing file."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from rich.console import Console

from regard._utils import override
from regard._utils.references import import_file, import_reference, is_reference, reference_of
from regard.checkpoint import load_tensors
from regard.recipes import make_run
from regard.recipes.table import RECIPES
from regard.tasks import fit, load
from regard.tasks.load import RECIPES_0_1, choose_device

QUIET = Console(quiet=True)
FILE = '''
"""A corpus and a recipe of a user's own."""
from dataclasses import dataclass, replace

from helper import WORDS
from regard.data import Pair, Pairs
from regard.recipes import make_run


@dataclass(frozen=True, kw_only=True)
class Doubled:
    """Words, and the same words twice."""

    count: int = 40

    @property
    def splits(self):
        return ("train", "validation")

    @property
    def languages(self):
        return ("", "")

    @property
    def tokenised(self):
        return True

    def read(self, split):
        words = [f"{word} {n % 7}" for n, word in enumerate(WORDS * self.count)]
        return Pairs(tuple(Pair(word, f"{word} {word}") for word in words[: self.count]))


def doubled(model: str = "bahdanau", *, count: int = 40):
    """Words to the same words twice."""
    run = make_run("copy", model, steps=4)
    names = ("embedding_size", "hidden_size", "alignment_size", "maxout_size")
    sizes = {name: 8 for name in names if hasattr(run.model, name)}
    return replace(run, recipe="doubled", data=Doubled(count=count), model=replace(run.model, **sizes))


number = 3
'''


@pytest.fixture
def file(tmp_path):
    (tmp_path / "helper.py").write_text("WORDS = ['one', 'two', 'three']\n")
    path = tmp_path / "my_recipe.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def command(monkeypatch):
    from regard.cli import main

    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        return stopped.value.code

    return run


def test_a_recipe_of_a_file_trains_loads_resumes_and_is_evaluated(command, file, tmp_path, capsys):
    out, recipe = tmp_path / "run", f"{file}:doubled"
    assert command("train", recipe, "--out", out, "--set", "data.count=24", "--steps", 4) == 0
    config = json.loads((out / "config.json").read_text())
    assert (config["task"], config["corpus"], config["recipe"]) == ("translation", f"{file}:Doubled", "doubled")
    assert load(out).run.data.count == 24
    # as it began: settings need not be repeated
    assert command("train", recipe, "--out", out, "--resume", "--steps", 6) == 0
    assert command("train", "--out", out, "--resume", "--steps", 8) == 0
    assert "8 steps" in capsys.readouterr().out
    assert command("evaluate", out) == 0
    assert (out / "evaluation-validation.json").exists(), "the corpus has no test"
    assert command("train", f"{file}:doubled", "--model", "luong", "--out", out, "--resume") == 2
    assert "model_name: bahdanau -> luong" in " ".join(capsys.readouterr().err.split())


def test_a_run_of_a_users_recipe_loads_in_another_process(file, tmp_path):
    out = tmp_path / "run"
    fit(make_run(f"{file}:doubled", count=20), out, console=QUIET)
    used = subprocess.run(
        [sys.executable, "-c", f"import regard; print(len(regard.load({str(out)!r}).predict(['one 1'])))"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert used.stdout == "1\n"


def test_a_missing_recipe_file_raises_an_error_with_its_path(file, tmp_path):
    out = tmp_path / "run"
    fit(make_run(f"{file}:doubled", count=20), out, console=QUIET)
    sys.modules.pop(import_file(file).__name__)
    file.rename(tmp_path / "elsewhere.py")
    with pytest.raises(ValueError, match=r"config\.json: corpus is '.*my_recipe\.py:Doubled', and .* there is no file"):
        load(out)
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**config, "corpus": f"{tmp_path / 'elsewhere.py'}:Doubled"}))
    assert load(out).run.data.count == 20
    for name, message in (("Missing", "has no Missing"), ("number", "is not a dataclass")):
        changed = {**config, "corpus": f"{tmp_path / 'elsewhere.py'}:{name}"}
        (out / "config.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=message):
            load(out)


def test_runs_load_after_their_recipe_is_renamed(file, tmp_path, tiny_run):
    run = override(tiny_run, "training.schedule.decay_steps=4")
    fit(run, tmp_path / "run", console=QUIET)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**config, "recipe": "a name of yesterday"}))
    assert load(tmp_path / "run").run.recipe == "a name of yesterday"
    assert fit(run, tmp_path / "run", resume=True, console=QUIET).result.steps == 4


@dataclass(frozen=True, kw_only=True)
class OfATest:
    """A class of a module that is found by its name."""


def test_references_resolve_to_their_objects(file):
    assert is_reference("a.py:b") and is_reference("package.module:name")
    assert not is_reference("dates") and not is_reference("a:b c") and not is_reference(":b")
    for value in (import_reference(f"{file}:Doubled"), override, OfATest):
        assert import_reference(reference_of(value)) is value
    assert reference_of(override) == "regard._utils.config_io:override"
    assert import_file(file) is import_file(file)

    class Inside:
        pass

    with pytest.raises(ValueError, match="Inside is defined inside a function or a class"):
        reference_of(Inside)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('broken')", "RuntimeError: broken"),
        ("def f(:", "SyntaxError"),
        ("x = 1", "is a int, expected a function"),
        ("y = 1", "has no x"),
    ],
)
def test_a_file_that_fails_to_import_raises_a_clear_error(text, message, tmp_path):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(ValueError, match=message):
        make_run(f"{tmp_path / 'broken.py'}:x")


def test_a_class_of_a_function_is_refused_before_training(tiny_run, tmp_path):
    from dataclasses import replace

    @dataclass(frozen=True, kw_only=True)
    class Local(type(tiny_run.data)):
        """Cannot be imported again."""

    run = replace(tiny_run, data=Local(content=tiny_run.data.content))
    with pytest.raises(ValueError, match="Local is defined inside a function"):
        fit(run, tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


OLD = ("task", "corpus", "files", "data_sha256", "sha256")
"""What a config of 0.1 does not have."""


def test_every_recipe_of_0_1_is_in_the_migration():
    assert set(RECIPES_0_1) <= {*RECIPES}
    for name, (task, _) in RECIPES_0_1.items():
        assert RECIPES[name].task == task


def as_0_1(folder):
    """The config without what 0.1 did not write."""
    path = folder / "config.json"
    config = {name: value for name, value in json.loads(path.read_text()).items() if name not in OLD}
    path.write_text(json.dumps(config))


def test_a_run_of_0_1_loads_and_resumes_to_the_same_weights(tiny_run, tmp_path):
    run = override(tiny_run, "training.schedule.decay_steps=4", "training.selection.average_last=0")
    fit(run, tmp_path / "whole", console=QUIET)
    fit(override(run, "training.steps=2"), tmp_path / "cut", console=QUIET)
    as_0_1(tmp_path / "cut")
    assert load(tmp_path / "cut").run == override(load(tmp_path / "whole").run, "training.steps=2")
    fit(run, tmp_path / "cut", resume=True, console=QUIET)
    last = "training/step-00000004/weights.safetensors"
    whole, resumed = (load_tensors(tmp_path / name / last) for name in ("whole", "cut"))
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert json.loads((tmp_path / "cut" / "config.json").read_text())["task"] == "translation"


def test_a_config_of_0_1_with_an_unknown_recipe_is_named(fitted, tmp_path):
    import shutil

    folder = shutil.copytree(fitted.result.folder, tmp_path / "copy")
    as_0_1(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "recipe": "multi"}))
    with pytest.raises(ValueError, match="recipe is 'multi'; the nearest is 'multi30k'"):
        load(folder)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu", "expected auto, cpu, cuda, mps"),
        ("meta", "expected auto, cpu, cuda, mps"),
        ("cuda:99", "device is cuda:99, but torch finds"),
        (torch.device("cuda", 99), "device is cuda:99, but torch finds"),
    ],
)
def test_a_missing_device_raises_a_clear_error(device, message):
    with pytest.raises(ValueError, match=message):
        choose_device(device)
    assert choose_device(torch.device("cpu")) == choose_device("cpu") == torch.device("cpu")
