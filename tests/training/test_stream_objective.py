"""State carried from segment to segment equals a plain loop; resumed bit for bit; and SGD."""

import os
import signal
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from torch import nn

from regard.checkpoint import load_tensors
from regard.contracts import leaves, map_tensors
from regard.models.language_modeling.gpt import GPT, GPTConfig
from regard.training import (
    AdamSettings,
    ComputeSettings,
    CropObjective,
    Interrupted,
    ScheduleSettings,
    SGDSettings,
    StreamObjective,
    train,
)
from regard.training.engine import Engine, make_optimizer
from tests.training.reading import VOCAB, data_of, lstm, settings

QUIET = Console(quiet=True)


def by_hand(model, segments):
    """A plain loop: cross-entropy after the state of the last segment, without its gradient."""
    state, losses = None, []
    for segment in segments:
        start = model.start(len(segment.tokens))
        before = start if state is None else map_tensors(torch.Tensor.detach, state)
        for row in segment.fresh.nonzero()[:, 0].tolist():
            for old, fresh in zip(leaves(before), leaves(start), strict=True):
                old[row] = fresh[row]
        output = model.features(segment.tokens, before)
        state = output.state
        logits = model.readout(output.features)
        losses.append(nn.functional.cross_entropy(logits.flatten(0, 1), segment.labels.flatten(), reduction="sum"))
    return losses


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_state_is_carried_and_gradients_are_not():
    model, data = lstm().double(), data_of()
    segments = [data.make(starts) for starts in data.order.epoch(0)]
    assert len(segments) == 3 and not segments[1].fresh.any()
    objective = StreamObjective(model)
    ours = [gradients(model, objective(segment)) for segment in segments]
    theirs = [gradients(model, loss) for loss in by_hand(model, segments)]
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    # without the state the third segment has another loss
    alone = gradients(model, CropObjective(model)(segments[2]))
    assert not torch.allclose(alone[0], ours[2][0], rtol=1e-3)


def test_rows_of_a_new_text_begin_with_the_start_state():
    model, data = lstm().double(), data_of()
    first, second, _ = (data.make(starts) for starts in data.order.epoch(0))
    objective = StreamObjective(model)
    objective(first)
    carried = [tensor.clone() for tensor in objective.take()]
    fresh = torch.tensor([False, True, False])
    initial = leaves(objective.begin(replace(second, fresh=fresh)))
    for got, start, old in zip(initial, leaves(model.start(3)), carried, strict=True):
        assert torch.equal(got[1], start[1])
        assert torch.equal(got[0], old[0]) and torch.equal(got[2], old[2]) and not torch.equal(got[0], start[0])


def test_carried_tensors_keep_their_addresses():
    data, objective = data_of(), StreamObjective(lstm())
    places = []
    for starts in data.order.epoch(0):
        objective(data.make(starts))
        places.append([tensor.data_ptr() for tensor in objective.take()])
        assert not any(tensor.requires_grad for tensor in objective.take())
    assert places[0] == places[1] == places[2]


@pytest.mark.parametrize(
    "make",
    [
        lstm,
        lambda: GPT(
            GPTConfig(
                vocab_size=VOCAB, hidden_size=8, num_layers=1, num_heads=2, feed_forward_size=8, context=8, dropout=0.0
            )
        ),
    ],
)
def test_crops_carry_nothing(make):
    model, data = make(), data_of(cut="crops")
    segment = data.make(data.order.epoch(0)[0])
    objective = CropObjective(model)
    first = objective(segment)
    objective(data.make(data.order.epoch(1)[0]))
    assert torch.equal(objective(segment), first) and not hasattr(objective, "carried")


def test_label_smoothing_reaches_the_loss():
    model, data = lstm(), data_of()
    segment = data.make(data.order.epoch(0)[0])
    logits = model.readout(model.features(segment.tokens, model.start(3)).features).flatten(0, 1)
    smooth = nn.functional.cross_entropy(logits, segment.labels.flatten(), reduction="sum", label_smoothing=0.2)
    torch.testing.assert_close(StreamObjective(model, label_smoothing=0.2)(segment), smooth)


@pytest.mark.parametrize("stop_at", [1, 5])
def test_a_resumed_training_is_bit_equal(tmp_path, stop_at):
    """3 segments an epoch, so that it stops within an epoch."""
    whole, resumed = lstm(dropout=0.3), lstm(dropout=0.3)
    train(whole, data_of(), settings(), tmp_path / "whole", objective=StreamObjective, console=QUIET)

    def stop(record):
        if record["step"] == stop_at:
            os.kill(os.getpid(), signal.SIGINT)

    arguments = {"objective": StreamObjective, "console": QUIET}
    with pytest.raises(Interrupted):
        train(lstm(dropout=0.3), data_of(), settings(), tmp_path / "cut", callbacks=[stop], **arguments)
    train(resumed, data_of(), settings(), tmp_path / "cut", resume=True, **arguments)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    carried = load_tensors(tmp_path / "cut" / "training" / "step-00000010" / "carried.safetensors")
    assert carried["0"].shape == (3, 2, 6), "the rows of the global batch"


def test_a_resumed_training_depends_on_the_carried_state(tmp_path):
    """The test above can fail."""
    models = [lstm(), lstm()]
    for number, model in enumerate(models):
        train(lstm(), data_of(), settings(steps=4), tmp_path / str(number), objective=StreamObjective, console=QUIET)
        if number:
            (tmp_path / "1" / "training" / "step-00000004" / "carried.safetensors").unlink()
        arguments = {"objective": StreamObjective, "resume": True, "console": QUIET}
        train(model, data_of(), settings(steps=5), tmp_path / str(number), **arguments)
    assert not torch.equal(*(model.words.embedding.weight for model in models))


@pytest.mark.parametrize(("clip_norm", "momentum"), [(None, 0.0), (0.1, 0.0), (None, 0.9)])
def test_sgd_and_the_exponential_schedule_equal_their_formulas(tmp_path, clip_norm, momentum):
    model, plain, data = lstm(), lstm(), data_of(tokens=12)
    segment = data.make([0, 4, 8])
    optimizer = SGDSettings(learning_rate=0.5, clip_norm=clip_norm, momentum=momentum)
    schedule = ScheduleSettings(name="exponential", warmup_steps=1, decay_steps=2)
    chosen = settings(steps=4, optimizer=optimizer, schedule=schedule)
    train(model, data, chosen, tmp_path, objective=StreamObjective, console=QUIET)
    speeds = [torch.zeros_like(parameter) for parameter in plain.parameters()]
    # one segment per epoch: every step begins with the start state
    for rate in (0.5, 0.5 * 0.5**0.5, 0.25, 0.25 * 0.5**0.5):
        actual = gradients(plain, CropObjective(plain)(segment) / 12)
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one) for one in actual]))
        scale = 1.0 if clip_norm is None else min(1.0, clip_norm / norm.item())
        with torch.no_grad():
            for parameter, speed, gradient in zip(plain.parameters(), speeds, actual, strict=True):
                speed.mul_(momentum).add_(scale * gradient)
                parameter.sub_(rate * speed)
    torch.testing.assert_close(list(model.parameters()), list(plain.parameters()), rtol=1e-4, atol=1e-6)


def test_weight_decay_excludes_vectors():
    model = lstm()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    optimizer = make_optimizer(model, AdamSettings(learning_rate=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        expected = before[name] if parameter.ndim < 2 else 0.95 * before[name]
        torch.testing.assert_close(parameter, expected, rtol=1e-6, atol=0)
    assert any(parameter.ndim < 2 for parameter in model.parameters())


def test_rows_of_a_stream_are_not_accumulated():
    compute = ComputeSettings(device="cpu", precision="fp32", accumulation=2)
    with pytest.raises(ValueError, match=r"accumulation is 2, but the rows of a stream .* compute\.accumulation=1"):
        Engine(lstm(), settings(compute=compute), StreamObjective)
    Engine(lstm(), settings(compute=compute), CropObjective)


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"learning_rate": 0.0}, "learning_rate is 0.0"), ({"clip_norm": -1.0}, "clip_norm is -1.0, expected more")],
)
def test_invalid_sgd_settings_raise_errors(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        SGDSettings(**changes)


def test_an_exponential_schedule_needs_decay_steps(tmp_path):
    chosen = settings(schedule=ScheduleSettings(name="exponential"))
    with pytest.raises(ValueError, match="the schedule exponential needs decay_steps"):
        train(lstm(), data_of(), chosen, tmp_path, objective=StreamObjective, console=QUIET)
