"""`training.compute.fused`: False trains and validates with the models' own code, and is saved with the run."""

import json
from functools import partial

import pytest
from rich.console import Console

from regard._utils import override
from regard.checkpoint import RunFolder
from regard.fused import FUSED, fuse, which
from regard.models.language_modeling import LSTMNLanguageModel
from regard.models.text_classification import LSTMNEncoder
from regard.models.translation import Bahdanau, Transformer
from regard.recipes import make_run
from regard.tasks import fit, load, read_run
from regard.tasks.load import from_config
from regard.training import ClassificationObjective, ComputeSettings, CropObjective, Objective, StreamObjective
from regard.training.engine import Engine
from tests.recipes.texts import CPU, TEXT
from tests.training.toy import Toy, settings

QUIET = Console(quiet=True)
TRANSLATION = ("data.count=24", "data.held_out=8", "training.steps=1", "model.hidden_size=8", *CPU)


def runs(folder):
    """One run for each way in which a task uses fused code."""
    (folder / "text.txt").write_text(TEXT)
    (folder / "lines.all").write_text("".join(f"{'AB'[n % 2]} word {n}\n" for n in range(40)))
    recurrent = ("model.embedding_size=8", "training.steps=1", "training.epochs=none", *CPU)
    return {
        Bahdanau: override(make_run("copy", "bahdanau"), *TRANSLATION),
        # its fused code does not train, but validation decodes with it
        Transformer: override(make_run("copy", "transformer"), "model.num_heads=2", *TRANSLATION),
        LSTMNLanguageModel: override(make_run("text", "lstmn", data=folder / "text.txt"), *recurrent),
        LSTMNEncoder: override(make_run("sentences", "lstmn_encoder", data=folder / "lines.all"), *recurrent),
    }


class FusedCodeError(Exception):
    """Raised where a model is fused."""


@pytest.fixture
def fusing_raises(monkeypatch):
    def refuse(model):
        raise FusedCodeError(type(model).__name__)

    for model in FUSED:
        monkeypatch.setitem(FUSED, model, refuse)


@pytest.mark.parametrize("model", [Bahdanau, Transformer, LSTMNLanguageModel, LSTMNEncoder])
def test_no_fused_code_runs_in_a_training_without_it(model, fusing_raises, tmp_path):
    run = runs(tmp_path)[model]
    with pytest.raises(FusedCodeError):
        fit(run, tmp_path / "fused", console=QUIET)
    result = fit(override(run, "training.compute.fused=false"), tmp_path / "readable", console=QUIET).result
    assert result.steps == 1 and result.metrics


@pytest.mark.parametrize("kind", [Objective, CropObjective, StreamObjective, ClassificationObjective])
def test_the_engine_disables_fused_code_of_every_objective(kind):
    for fused in (True, False):
        compute = ComputeSettings(device="cpu", precision="fp32", fused=fused)
        engine = Engine(Toy(), settings(compute=compute), partial(kind, fuse=fuse))
        assert (engine.unwrapped_objective.fuse is fuse) is fused


def test_the_setting_is_saved_and_defaults_to_true(tmp_path):
    run = override(runs(tmp_path)[Bahdanau], "training.compute.fused=false")
    fit(run, tmp_path / "run", console=QUIET)
    folder = RunFolder(tmp_path / "run")
    assert read_run(folder).training.compute.fused is False
    config = json.loads(folder.config.read_text())
    # configs from before the setting existed
    del config["training"]["compute"]["fused"]
    assert from_config(config, "config.json").training.compute.fused is True


def test_a_resumed_run_may_change_the_setting(tmp_path):
    run = override(runs(tmp_path)[Bahdanau], "training.compute.fused=false")
    fit(run, tmp_path / "run", console=QUIET)
    longer = override(run, "training.compute.fused=true", "training.steps=2")
    assert fit(longer, tmp_path / "run", resume=True, console=QUIET).result.steps == 2


def test_which_backend_names_the_setting(tmp_path):
    for model, name in ((Bahdanau, "bahdanau"), (Transformer, "transformer")):
        run = override(runs(tmp_path)[model], "training.compute.fused=false")
        fit(run, tmp_path / name, console=QUIET)
    trained = which(load(tmp_path / "bahdanau", device="cpu"))
    assert trained.startswith("Bahdanau trains with its own code: training.compute.fused is False; the device is cpu")
    # a predictor decodes with fused code whatever its training used
    assert which(load(tmp_path / "transformer", device="cpu")) == "Transformer decodes with FusedTransformer."
