"""Training steps without an optimizer: fused recurrent loops and packed rows, against the readable path.

Models have the sizes of their recipes, language models also their segments (Penn Treebank 32 x 35, text 16 x 32).
Numbers are compared without dropout; what is timed has the recipe's. On a GPU under bf16 autocast, as by default.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.ablation_batches import (
    SEED,
    VOCAB_SIZE,
    filled,
    segment,
    sentence_batch,
    shapes,
    translation_batch,
)
from benchmarks.sides import Case, Duel, Side
from regard.attention import multi_head as heads
from regard.attention.indices import pad_memory
from regard.contracts import map_tensors
from regard.kernels import packing as rows
from regard.kernels import product as product_kernels
from regard.kernels import recurrent as recurrent_kernels
from regard.kernels.dot import packed, packed_triton
from regard.kernels.recurrent import additive_look, gru, look, lstm, repeated, tape, window
from regard.layers import bidirectional_lstm, maxout, recurrent, steps
from regard.layers import rolling as rolling_layers
from regard.layers import tape as tape_layers
from regard.layers.unroll import looks_plainly, may_fuse
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.models.translation import TRANSLATION_MODELS, bahdanau, lstmn, luong
from regard.recipes import ptb, text
from regard.recipes.multi30k import SIZES
from regard.recipes.sentences import SIZES as SENTENCE_SIZES
from regard.training.objective import Objective
from regard.training.segment_objective import CropObjective
from regard.training.sentence_objective import ClassificationObjective

WARM_UP = 3
STEPS_A_RUN = {"cpu": 1, "cuda": 3, "captured": 10}
TOLERANCE = 1e-2
"""On the GPU one of the numbers is a loss in bf16."""


def refused(*arguments: Any, **options: Any) -> bool:
    """A predicate that always says no."""
    return False


READABLE = tuple((owner, "may_fuse", refused) for owner in (recurrent, tape_layers, maxout, bahdanau, luong, lstmn))
WITH_PARTS = ("bahdanau", "luong")
"""What they gain is also measured without oneDNN, and without their fused encoder."""
READABLE_ENCODER = tuple((owner, "may_fuse", refused) for owner in (recurrent, maxout))
WITHOUT_ONEDNN = ((product_kernels, "HAS_ONEDNN", False),)

LOOPS = (recurrent_kernels, repeated, steps, product_kernels, may_fuse, looks_plainly)
ADDITIVE = (look, additive_look)
TAPE = (tape, lstm, tape_layers.TapeLoop, tape_layers.TapeCell.may_fuse)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A model to build with or without dropout, its batch, its objective, and what its fused loop calls."""

    name: str
    build: Callable[[bool], nn.Module]
    batch: Callable[[], Any]
    objective: Callable[..., nn.Module]
    calls: tuple[Any, ...]
    own: tuple[Any, ...]
    on_cuda: bool = True
    seconds: float = 3.0
    """Of its case on two CPU cores, about."""


def built(entry: Any, sizes: dict[str, Any], drops: bool) -> nn.Module:
    """A model from the seed, with the dropout of its sizes or with none."""
    torch.manual_seed(SEED)
    config = entry.config(**sizes)
    if not drops:
        rates = {name: 0.0 for name in ("dropout", "word_dropout") if hasattr(config, name)}
        config = replace(config, **rates)
    model: nn.Module = entry.build(config).train()
    return model


def translator(name: str, calls: tuple[Any, ...], own: tuple[Any, ...], **options: Any) -> Task:
    """A translator of the Multi30k recipe."""
    sizes = SIZES[name] | {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
    return Task(
        name=name,
        build=partial(built, TRANSLATION_MODELS[name], sizes),
        batch=partial(translation_batch, is_packed=False),
        objective=partial(Objective, label_smoothing=0.1), calls=calls, own=own, **options,
    )  # fmt: skip


def reader(label: str, recipe: Any, num_rows: int, length: int, vocab_size: int) -> Task:
    """The LSTMN language model of a recipe; its loop keeps the last cells alone."""
    sizes = recipe.SIZES["lstmn"] | {"vocab_size": vocab_size}
    own = (*TAPE, window)
    return Task(
        name=f"lstmn language model, {label}", build=partial(built, LANGUAGE_MODELS["lstmn"], sizes),
        batch=partial(segment, num_rows, length, vocab_size), objective=CropObjective,
        calls=((rolling_layers, "TapeLoop"),), own=own,
    )  # fmt: skip


def classifier(name: str, calls: tuple[Any, ...], own: tuple[Any, ...], *, on_cuda: bool) -> Task:
    """A classifier of the sentences recipe."""
    sizes = SENTENCE_SIZES[name] | {"vocab_size": VOCAB_SIZE, "num_classes": 2}
    return Task(
        name=name, build=partial(built, TEXT_CLASSIFICATION_MODELS[name], sizes), batch=sentence_batch,
        objective=ClassificationObjective, calls=calls, own=own, on_cuda=on_cuda,
    )  # fmt: skip


STEP_LSTM = (recurrent.step_lstm, recurrent.may_step, steps.may_look, lstm)
DEEP = (lstmn.DeepLayer.move, lstmn.DeepLayer.may_fuse, lstmn.DeepFusion.move, lstmn.DeepFusion.may_fuse)
SHALLOW = (lstmn.ShallowFusion.move, lstmn.ShallowFusion.may_fuse)

TASKS = (
    translator(
        "bahdanau", ((bahdanau, "AdditiveLook"),), (bahdanau.Bahdanau._move, gru, *ADDITIVE, recurrent.step_gru),
        seconds=45.0,
    ),
    translator(
        "luong", ((luong, "DotLook"),),
        (luong.Luong._move, luong.Luong._look, luong.Luong._drops, look, *STEP_LSTM), seconds=45.0,
    ),
    translator(
        "lstmn", ((lstmn, "AdditiveLook"), (lstmn, "TapeLoop")), (*DEEP, *SHALLOW, *ADDITIVE, *TAPE), seconds=20.0
    ),
    reader("Penn Treebank", ptb, 32, 35, 10_002),
    reader("text", text, 16, 32, 8_000),
    classifier("lstmn_encoder", ((tape_layers, "TapeLoop"),), TAPE, on_cuda=True),
    translator("seq2seq", ((recurrent, "step_lstm"),), STEP_LSTM, on_cuda=False, seconds=18.0),
    translator("rnn_encoder_decoder", ((maxout, "linear"),), (), on_cuda=False, seconds=18.0),
    classifier("bilstm", ((bidirectional_lstm, "step_lstm"),), STEP_LSTM, on_cuda=False),
    classifier("structured_self_attention", ((bidirectional_lstm, "step_lstm"),), STEP_LSTM, on_cuda=False),
)  # fmt: skip


def placed(task: Task, device: str, *, drops: bool) -> tuple[nn.Module, Any]:
    """The objective and its batch on the device."""
    objective = task.objective(task.build(drops)).to(device)
    return objective, map_tensors(lambda tensor: tensor.to(device), task.batch())


def learn(objective: nn.Module, batch: Any, device: str, *, exactly: bool = False) -> Tensor:
    """Forward and backward, the gradients written anew; on a GPU in bf16, as by default, unless asked otherwise."""
    objective.zero_grad(set_to_none=True)
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda" and not exactly, cache_enabled=False):
        loss: Tensor = objective(batch)
    (loss / batch.num_tokens).backward()
    return loss.detach()


def loss_and_gradients(objective: nn.Module, batch: Any, device: str) -> dict[str, Tensor]:
    """The numbers of a step: its loss as timed, the loss in float32, and the gradient as one vector."""
    timed = learn(objective, batch, device) if device == "cuda" else torch.zeros(())
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        loss = learn(objective, batch, device, exactly=True)
    gradients = [part.grad.flatten().double() for part in objective.parameters() if part.grad is not None]
    return {"loss as timed": timed, "loss": loss, "gradient": torch.cat(gradients)}


def repeated_run(run: Callable[[], Any], times: int) -> Callable[[], None]:
    """So many steps, one after the other, the host running ahead on a GPU."""

    def all_of_them() -> None:
        for _ in range(times):
            run()

    return all_of_them


def captured(run: Callable[[], Tensor]) -> Callable[[], None]:
    """The step as one CUDA graph; what would wait for the device is reported before anything is captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            run()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()

    def replay(kept: Callable[[], Tensor] = run) -> None:
        """The graph reads the tensors that the step holds: without the step they would be freed."""
        graph.replay()

    return replay


def one_side(task: Task, mode: str, side: Side) -> Side:
    """The side with a model of its own: numbers without dropout, and a run that is eager or a captured graph."""
    device = "cpu" if mode == "cpu" else "cuda"
    objective, batch = placed(task, device, drops=True)

    def numbers() -> dict[str, Tensor]:
        return loss_and_gradients(*placed(task, device, drops=False), device)

    run = partial(learn, objective, batch, device)
    if mode == "captured":
        with side.swapped():
            run = captured(run)
    return replace(side, run=repeated_run(run, STEPS_A_RUN[mode]), numbers=numbers)


def unmade() -> None:
    """What a side runs before it is made for a task."""


def recurrent_duel(task: Task, mode: str) -> Duel:
    """The readable path and the fused one; on a CPU also the fused one without its encoder, and without oneDNN."""
    task = replace(task, batch=filled(task.batch)) if mode == "captured" else task
    sides = {
        "readable": Side(run=unmade, swaps=READABLE, avoids=task.calls),
        "fused": Side(run=unmade, calls=task.calls),
    }
    if mode == "cpu" and task.name in WITH_PARTS:
        sides["fused without oneDNN"] = Side(run=unmade, swaps=WITHOUT_ONEDNN, calls=task.calls)
    if mode == "cpu" and task.name in WITH_PARTS:
        sides["fused decoder, readable encoder"] = Side(run=unmade, swaps=READABLE_ENCODER, calls=task.calls)
    batch = task.batch()
    notes = {"batch": shapes(batch), "steps a run": STEPS_A_RUN[mode], "real labels": batch.num_tokens, "seed": SEED}
    made = {name: one_side(task, mode, side) for name, side in sides.items()}
    return Duel(sides=made, tolerance=TOLERANCE, notes=notes)


def transformer_task(*, is_packed: bool, score: str = "scaled_dot") -> Task:
    """The Transformer of the Multi30k recipe."""
    task = translator("transformer", (), (), on_cuda=True)
    sizes = SIZES["transformer"] | {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE, "score": score}
    build = partial(built, TRANSLATION_MODELS["transformer"], sizes)
    return replace(task, build=build, batch=partial(translation_batch, is_packed=is_packed))


def packed_duel(mode: str) -> Duel:
    """Padded rows; packed ones whose attention spreads them out; and, on a GPU, packed ones by their own kernel."""
    kernel, spreading = ((heads, "attend_packed"),), ((heads, "pad_packed"),)
    sides = {
        "padded": (False, Side(run=unmade, avoids=(*kernel, *spreading))),
        "packed, spread for attention": (
            True,
            Side(run=unmade, swaps=((heads, "packed_unsupported_reasons", lambda *_: ("measured without it",)),),
                 calls=spreading, avoids=kernel),
        ),
    }  # fmt: skip
    if mode != "cpu":
        sides["packed, by its kernel"] = (True, Side(run=unmade, calls=kernel, avoids=spreading))
    made, notes = {}, {"steps a run": STEPS_A_RUN[mode], "seed": SEED}
    for name, (is_packed, side) in sides.items():
        task = transformer_task(is_packed=is_packed)
        task = replace(task, batch=filled(task.batch)) if mode == "captured" else task
        notes[f"batch, {name}"] = shapes(task.batch())
        made[name] = one_side(task, mode, side)
    return Duel(sides=made, tolerance=TOLERANCE, notes=notes)


def cases(device: str) -> list[Case]:
    """All of a device: on a GPU captured and eager."""
    modes = ("cpu",) if device == "cpu" else ("captured", "cuda")
    names = {"cpu": "CPU", "cuda": "GPU, eager", "captured": "GPU, one CUDA graph"}
    recurrent_cases = [
        Case(
            group="recurrent training step", name=f"{task.name}, {names[mode]}",
            build=partial(recurrent_duel, task, mode), own=task.own, shared=LOOPS,
            share=task.seconds if mode == "cpu" else 10.0,
        )
        for mode in modes
        for task in TASKS
        if mode == "cpu" or task.on_cuda
    ]  # fmt: skip
    heads_alone = heads.MultiHeadAttention._kernel_serves, heads.MultiHeadAttention._read_end_to_end
    packed_cases = [
        Case(
            group="packed rows", name=f"transformer, {names[mode]}", build=partial(packed_duel, mode),
            own=(packed, packed_triton, *heads_alone), shared=(rows, pad_memory), share=10.0,
        )
        for mode in modes
    ]  # fmt: skip
    return recurrent_cases + packed_cases
