"""A trained folder of each of the 23 systems, written by version 0.1, loads and gives the outputs that 0.1 gave.

The folders hold tiny systems after two steps on generated data. `expected.json` was written by 0.1.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from rich.console import Console

from regard._utils import override
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.models.translation import TRANSLATION_MODELS
from regard.tasks import fit, load

ROOT = Path(__file__).parents[1] / "checkpoints_0_1"
FOLDERS = sorted(path.parent for path in ROOT.glob("*/*/config.json"))


def test_every_system_of_0_1_has_a_folder():
    systems = (*TRANSLATION_MODELS, *LANGUAGE_MODELS, *TEXT_CLASSIFICATION_MODELS)
    assert len(FOLDERS) == 23
    assert {folder.name for folder in FOLDERS} <= set(systems)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_checkpoint_of_0_1_loads_with_equal_outputs(folder):
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    predictor = load(folder, device="cpu")
    if "scores" in expected:
        scores = predictor.score(expected["inputs"], expected["outputs"])
        assert [str(output) for output in predictor.translate(expected["inputs"], beam=1)] == expected["texts"]
        torch.testing.assert_close(torch.tensor(scores), torch.tensor(expected["scores"]), rtol=1e-5, atol=1e-4)
    elif "nats" in expected:
        nats = [predictor.likelihood(text).nats for text in expected["outputs"]]
        torch.testing.assert_close(torch.tensor(nats), torch.tensor(expected["nats"]), rtol=1e-5, atol=1e-4)
    else:
        outputs = predictor.classify(expected["inputs"])
        assert [output.label for output in outputs] == expected["labels"]
        probabilities = [list(output.probabilities.values()) for output in outputs]
        torch.testing.assert_close(torch.tensor(probabilities), torch.tensor(expected["probabilities"]))


def test_a_run_of_0_1_is_resumed(tmp_path):
    folder = shutil.copytree(ROOT / "translation" / "bahdanau", tmp_path / "run")
    run = override(load(folder, device="cpu").run, "training.steps=4")
    # its readout began with zeros, which the record keeps
    assert run.training.readout_bias == "model"
    trained = fit(run, folder, resume=True, console=Console(quiet=True))
    assert trained.result.steps == 4
    resumed = load(folder, device="cpu").run.training
    assert (resumed.steps, resumed.readout_bias) == (4, "model")
    # a run of a recipe has the default of today, and the initial weights no longer matter
    longer = override(run, "training.steps=5", "training.readout_bias=frequencies")
    assert fit(longer, folder, resume=True, console=Console(quiet=True)).result.steps == 5
