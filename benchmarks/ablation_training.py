"""Training steps without an optimizer: fused recurrent loops and packed rows, against the readable path.

Models have the sizes of their recipes, language models also their segments (Penn Treebank 32 x 35, text 16 x 32). Both
sides of a recurrent step are given to the same objective: the readable one as the model, the fused one through
`regard.fused.fuse`, which runs loops on CUDA devices only. Numbers are compared without dropout; what is timed has the
recipe's. On a GPU under bf16 autocast, as by default.
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
    pad_to_graph_shape,
    segment,
    sentence_batch,
    shapes,
    translation_batch,
)
from benchmarks.sides import Case, Duel, Side
from regard import fused
from regard.attention import multi_head as heads
from regard.attention.indices import pad_memory
from regard.contracts import map_tensors
from regard.fused import bahdanau, lstmn, lstmn_cell, luong, training
from regard.kernels import packing as rows
from regard.kernels.dot import packed, packed_triton
from regard.kernels.recurrent import deferred_linear, gates, lstmn_memory, stepwise_attention
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes import ptb, text
from regard.recipes.multi30k import SIZES
from regard.recipes.sentences import SIZES as SENTENCE_SIZES
from regard.training import ClassificationObjective, CropObjective, Objective

WARM_UP = 3
STEPS_A_RUN = {"cpu": 1, "cuda": 3, "captured": 10}
TOLERANCE = 1e-2
"""On the GPU one of the numbers is a loss in bf16."""

LOOPS = (deferred_linear, stepwise_attention, gates, training)
LSTMN = (lstmn_memory, lstmn_cell, lstmn)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A model to build with or without dropout, its batch, its objective, and the sources of its fused loop."""

    name: str
    build: Callable[[bool], nn.Module]
    batch: Callable[[], Any]
    objective: Callable[..., nn.Module]
    loop: type | None = None
    own: tuple[Any, ...] = ()


def built(entry: Any, sizes: dict[str, Any], drops: bool) -> nn.Module:
    """A model from the seed, with the dropout of its sizes or with none."""
    torch.manual_seed(SEED)
    config = entry.config(**sizes)
    if not drops:
        rates = {name: 0.0 for name in ("dropout", "word_dropout") if hasattr(config, name)}
        config = replace(config, **rates)
    model: nn.Module = entry.build(config).train()
    return model


def translator(name: str, loop: type | None, own: tuple[Any, ...]) -> Task:
    """A translator of the Multi30k recipe."""
    sizes = SIZES[name] | {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
    return Task(
        name=name,
        build=partial(built, TRANSLATION_MODELS[name], sizes),
        batch=partial(translation_batch, is_packed=False),
        objective=partial(Objective, label_smoothing=0.1),
        loop=loop,
        own=own,
    )


def language_model(label: str, recipe: Any, batch_size: int, length: int, vocab_size: int) -> Task:
    """The LSTMN language model of a recipe."""
    sizes = recipe.SIZES["lstmn"] | {"vocab_size": vocab_size}
    return Task(
        name=f"lstmn language model, {label}", build=partial(built, LANGUAGE_MODELS["lstmn"], sizes),
        batch=partial(segment, batch_size, length, vocab_size), objective=CropObjective,
        loop=fused.FusedLSTMNLanguageModel, own=LSTMN,
    )  # fmt: skip


def classifier(name: str, loop: type, own: tuple[Any, ...]) -> Task:
    """A classifier of the sentences recipe."""
    sizes = SENTENCE_SIZES[name] | {"vocab_size": VOCAB_SIZE, "num_classes": 2}
    return Task(
        name=name, build=partial(built, TEXT_CLASSIFICATION_MODELS[name], sizes), batch=sentence_batch,
        objective=ClassificationObjective, loop=loop, own=own,
    )  # fmt: skip


TASKS = (
    translator("bahdanau", fused.FusedBahdanau, (bahdanau,)),
    translator("luong", fused.FusedLuong, (luong,)),
    translator("lstmn", fused.FusedLSTMN, LSTMN),
    language_model("Penn Treebank", ptb, 32, 35, 10_002),
    language_model("text", text, 16, 32, 8_000),
    classifier("lstmn_encoder", fused.FusedLSTMNEncoder, LSTMN),
)


def placed(task: Task, device: str, *, drops: bool) -> tuple[nn.Module, Any]:
    """The objective and its batch on the device."""
    objective = task.objective(task.build(drops)).to(device)
    return objective, map_tensors(lambda tensor: tensor.to(device), task.batch())


def learn(objective: nn.Module, batch: Any, device: str, *, exactly: bool = False) -> Tensor:
    """Forward and backward, with new gradients; on a GPU in bf16, as by default, unless another precision is set."""
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
    """This many steps in sequence; on a GPU the host runs ahead."""

    def all_of_them() -> None:
        for _ in range(times):
            run()

    return all_of_them


def captured(run: Callable[[], Tensor]) -> Callable[[], None]:
    """The step as one CUDA graph; a synchronisation is reported before anything is captured."""
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

    def replay(run_once_more: Callable[[], Tensor] = run) -> None:
        """The graph uses tensors that the step references: without the step they would be freed."""
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
    """Placeholder of a side's run until the task is known."""


def recurrent_duel(task: Task, mode: str) -> Duel:
    """The model's own loop, and the fused one."""
    task = replace(task, batch=pad_to_graph_shape(task.batch)) if mode == "captured" else task
    loop = ((task.loop, "loop"),)
    sides = {
        "readable": one_side(task, mode, Side(run=unmade, avoids=loop)),
        "fused": one_side(through_the_door(task), mode, Side(run=unmade, calls=loop)),
    }
    batch = task.batch()
    notes = {"batch": shapes(batch), "steps a run": STEPS_A_RUN[mode], "real labels": batch.num_tokens, "seed": SEED}
    return Duel(sides=sides, tolerance=TOLERANCE, notes=notes)


def through_the_door(task: Task) -> Task:
    """The same task with `fuse` in its objective."""
    return replace(task, objective=partial(task.objective, fuse=fused.fuse))


def transformer_task(*, is_packed: bool, score: str = "scaled_dot") -> Task:
    """The Transformer of the Multi30k recipe."""
    task = translator("transformer", None, ())
    sizes = SIZES["transformer"] | {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE, "score": score}
    build = partial(built, TRANSLATION_MODELS["transformer"], sizes)
    return replace(task, build=build, batch=partial(translation_batch, is_packed=is_packed))


def packed_duel(mode: str) -> Duel:
    """Padded rows; packed rows that are padded for attention; and, on a GPU, packed rows with their kernel."""
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
    sides_of_duel, notes = {}, {"steps a run": STEPS_A_RUN[mode], "seed": SEED}
    for name, (is_packed, side) in sides.items():
        task = transformer_task(is_packed=is_packed)
        task = replace(task, batch=pad_to_graph_shape(task.batch)) if mode == "captured" else task
        notes[f"batch, {name}"] = shapes(task.batch())
        sides_of_duel[name] = one_side(task, mode, side)
    return Duel(sides=sides_of_duel, tolerance=TOLERANCE, notes=notes)


def cases(device: str) -> list[Case]:
    """All cases of a device: on a GPU captured and eager."""
    modes = ("cpu",) if device == "cpu" else ("captured", "cuda")
    names = {"cpu": "CPU", "cuda": "GPU, eager", "captured": "GPU, one CUDA graph"}
    recurrent_cases = [
        Case(
            group="recurrent training step", name=f"{task.name}, {names[mode]}",
            build=partial(recurrent_duel, task, mode), own=task.own, shared=LOOPS, share=10.0,
        )
        for mode in modes
        for task in TASKS
        if mode != "cpu"
    ]  # fmt: skip
    heads_alone = heads.MultiHeadAttention._packed_unsupported_reasons, heads.MultiHeadAttention._attend_packed
    packed_cases = [
        Case(
            group="packed rows", name=f"transformer, {names[mode]}", build=partial(packed_duel, mode),
            own=(packed, packed_triton, *heads_alone), shared=(rows, pad_memory), share=10.0,
        )
        for mode in modes
    ]  # fmt: skip
    return recurrent_cases + packed_cases
