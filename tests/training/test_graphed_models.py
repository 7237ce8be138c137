"""Every model that declares its step capturable trains equally by CUDA graphs and eagerly, also after edits."""

from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.console import Console

from regard.contracts import Segment
from regard.data.batching import Example, collate
from regard.models import FAMILIES
from regard.models.translation import TRANSLATION_MODELS
from regard.training import (
    AdamSettings,
    ClassificationObjective,
    ComputeSettings,
    CropObjective,
    Objective,
    StreamObjective,
    train,
)
from regard.training.cuda_graph import WARM_UP
from regard.training.engine import Engine
from tests.contracts import test_language_models as language
from tests.contracts import test_models as translation
from tests.contracts import test_sentence_models as sentences
from tests.contracts.listed import with_variants
from tests.training.toy import Letters, Toy, loss_of, settings

pytestmark = [pytest.mark.cuda, pytest.mark.unchecked]

MAKERS = {
    "translation": translation.make,
    "language_modeling": language.make,
    "text_classification": sentences.make,
}
CAPTURABLE = [
    pytest.param(family, *case.values, id=f"{family}-{case.id}")
    for family, table in FAMILIES.items()
    for case in with_variants({name: entry for name, entry in table.items() if entry.capturable})
]


SYNCHRONISING = ("sparsemax", "entmax")
"""Alignments of the entmax package, which reads the size of a support on the host: their steps run eagerly."""


def batches_of(family, name):
    """Batches of one shape, each with other content."""
    for number in range(WARM_UP + 3):
        if family == "translation":
            order = [(number + row) % len(translation.SOURCES) for row in range(len(translation.SOURCES))]
            pairs = [Example(tuple(translation.SOURCES[row]), tuple(translation.TARGETS[row][1:])) for row in order]
            yield collate(pairs, packed=TRANSLATION_MODELS[name].packs)
        elif family == "language_modeling":
            tokens = language.TOKENS.roll(number, dims=1)
            fresh = torch.full((len(tokens),), number == 0)
            yield Segment(tokens=tokens[:, :-1], labels=tokens[:, 1:], fresh=fresh, num_tokens=tokens[:, 1:].numel())
        else:
            batch = sentences.labelled()
            yield replace(batch, labels=batch.labels.roll(number))


def objective_of(family, name):
    if family == "language_modeling":
        return StreamObjective if name in language.ROLLING else CropObjective
    return {"translation": Objective, "text_classification": ClassificationObjective}[family]


def engine_of(family, name, change, step):
    model = MAKERS[family](name, change, torch.float32).train()
    chosen = settings(
        compute=ComputeSettings(device="cuda", precision="fp32", step=step),
        # a large eps: gradients that are 0 except for rounding must not be magnified
        optimizer=AdamSettings(learning_rate=1.0, eps=1e-3, clip_norm=1.0),
    )
    torch.manual_seed(0)
    return Engine(model, chosen, objective_of(family, name), capturable=True)


@pytest.mark.parametrize(("family", "name", "change"), CAPTURABLE)
def test_every_listed_model_trains_equally_with_graphs_and_eagerly(family, name, change):
    weights = MAKERS[family](name, change, torch.float32).state_dict()
    engines = {step: engine_of(family, name, change, step) for step in ("eager", "auto")}
    for engine in engines.values():
        engine.model.load_state_dict(weights)
    for number, batch in enumerate(batches_of(family, name)):
        losses = {
            step: engine.train_step(((engine.reshape(batch), True),), num_tokens=20, learning_rate=1e-3).item()
            for step, engine in engines.items()
        }
        assert losses["auto"] == pytest.approx(losses["eager"], rel=1e-3), f"step {number}"
    auto = engines["auto"]
    if change.get("alignment") in SYNCHRONISING:
        assert auto.choice.mode == "eager"
        assert "the step synchronises with the device" in str(auto.choice)
        return
    assert auto.choice.mode == "graphed", auto.choice
    assert all(shape.graph is not None for shape in auto.graphed.shapes.values()) and auto.graphed.shapes
    pairs = zip(engines["eager"].model.parameters(), auto.model.parameters(), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def changed_engines(change):
    """Losses of an eager and of a graphed engine on one batch, before and after the same change to both models."""
    engines = [engine_of("translation", "transformer", {}, step) for step in ("eager", "auto")]
    weights = {name: tensor.clone() for name, tensor in engines[0].model.state_dict().items()}
    engines[1].model.load_state_dict(weights)
    batch = next(batches_of("translation", "transformer"))
    losses = ([], [])
    for number in range(2 * WARM_UP + 4):
        if number == WARM_UP + 2:
            for engine in engines:
                change(engine.model)
        for engine, column in zip(engines, losses, strict=True):
            loss = engine.train_step(((engine.reshape(batch), True),), num_tokens=20, learning_rate=1e-3)
            column.append(loss.item())
    return losses


def halve(model):
    with torch.no_grad():
        model.readout.weight.mul_(0.5)


def hook_up(model):
    model.encoder[0].register_forward_hook(lambda module, inputs, output: 0.5 * output)


def replace_data(model):
    for parameter in model.parameters():
        parameter.data = 0.5 * parameter.data


@pytest.mark.parametrize("change", [halve, hook_up, replace_data])
def test_edits_of_a_model_apply_to_graphed_steps(change):
    eager, graphed = changed_engines(change)
    assert graphed == pytest.approx(eager, rel=1e-3)


class Waits(Toy):
    """Synchronises with the device during the forward pass."""

    def features(self, source, target):
        assert source.lengths.max().item() > 0
        return super().features(source, target)


def test_a_model_that_synchronizes_trains_eagerly_and_one_line_reports_it(tmp_path):
    output, compute = StringIO(), ComputeSettings(device="cuda", precision="fp32")
    data, model = Letters(count=64, rows=64), Waits()
    before = loss_of(model, data)["loss"]
    console = Console(file=output, width=200)
    train(model, data, settings(compute=compute, steps=30), tmp_path, capturable=True, console=console)
    assert output.getvalue().count("the step synchronises with the device") == 1
    assert loss_of(model.cpu(), data)["loss"] < 0.9 * before


def test_a_graphed_training_resumes(tmp_path):
    def bahdanau():
        torch.manual_seed(0)
        sizes = {"source_vocab_size": 13, "target_vocab_size": 13}
        return translation.make("bahdanau", sizes, torch.float32)

    compute = ComputeSettings(device="cuda", precision="fp32")
    whole, first, second = (bahdanau() for _ in range(3))
    data, chosen = Letters(count=8, rows=8), settings(compute=compute, steps=14)
    for model, folder, settled, resume in (
        (whole, "whole", chosen, False),
        (first, "cut", replace(chosen, steps=7), False),
        (second, "cut", chosen, True),
    ):
        train(model, data, settled, tmp_path / folder, capturable=True, resume=resume, console=Console(quiet=True))
    for ours, theirs in zip(whole.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
