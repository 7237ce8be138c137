"""A training step as one CUDA graph: a small model on a large GPU is limited by launches, and a graph launches once.

    copy the batch into the graph's own tensors -> replay: forward, backward, clip, update

A graph has one shape, so batches are filled up to a few shapes, packed or padded. The first steps of each shape run
eagerly, which warms up kernels and allocations. Then the step is captured, and from then on replayed. The numbers are
those of the eager step, to rounding.

A replay runs the kernels that were captured, on the tensors that were captured, whatever the model has become. So
before every step the model is compared with the one at the capture, and this decides:

    a hook, a replaced `forward`, an active trace or intervention   the step runs eagerly; graphs are kept for later
    another tensor, a mode, an edit of the model's structure        graphs are dropped, and captured again
    a weight that was edited in place                               nothing: the graph reads the weight

"An edit of the structure" is a change in `unsupported_reasons`, by which fused code decides to run: a module of
another type, an eps, a dropout rate, a method. So a graph that was captured with fused code is never replayed for a
model that needs its own code.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.contracts import (
    PAD,
    Batch,
    Labelled,
    PackedTokens,
    PaddedTokens,
    active_recorders,
    has_hooks,
    leaves,
    map_tensors,
)
from regard.training.settings import ComputeSettings, StepKind

WARM_UP = 3
"""Steps of each shape before it is captured."""
MOST_SHAPES = 128
"""Graphs that are kept; batches of further shapes run eagerly."""


@dataclass(frozen=True, kw_only=True)
class StepChoice:
    """How training steps run, and the reasons against CUDA graphs where "auto" chose to run them eagerly."""

    kind: StepKind
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind != "eager":
            return f"Training steps are {self.kind}: each is replayed as one CUDA graph."
        without = f", without CUDA graphs: {'; '.join(self.reasons)}" if self.reasons else ""
        return f"Training steps run eagerly{without}."


def choose_step(
    settings: ComputeSettings, model: nn.Module, *, device: torch.device, num_processes: int, capturable: bool
) -> StepChoice:
    """The kind of step that `settings.step` means here; an error if a kind is named that cannot run."""
    reasons = reasons_against_capture(settings, device=device, num_processes=num_processes)
    if settings.step == "auto":
        if not capturable:
            reasons.append("the model does not declare that its step can be captured (capturable=True)")
        reasons += reasons_against_replay(model)
        return StepChoice(kind="eager" if reasons else "graphed", reasons=tuple(reasons))
    if settings.step != "eager" and reasons:
        raise ValueError(
            f"a {settings.step} step needs one process on one CUDA device, without accumulation, but "
            f"{' and '.join(reasons)}. Choose compute.step=auto."
        )
    return StepChoice(kind=settings.step)


def reasons_against_capture(settings: ComputeSettings, *, device: torch.device, num_processes: int) -> list[str]:
    """Why no training step can be captured in this process."""
    reasons = []
    if device.type != "cuda":
        reasons.append(f"the device is {device.type}")
    if num_processes > 1:
        reasons.append(f"{num_processes} processes train together")
    if settings.accumulation > 1:
        reasons.append(f"accumulation is {settings.accumulation}")
    return reasons


def reasons_against_replay(model: nn.Module) -> list[str]:
    """Why a step must call the model in Python, which a replay does not."""
    reasons = ["the model has hooks"] if has_hooks(model) else []
    if active_recorders():
        reasons.append("attention is being recorded by a trace or an intervention")
    names = [type(part).__name__ for part in model.modules() if "forward" in part.__dict__]
    return [*reasons, *(f"the forward of a {name} was replaced" for name in names)]


@dataclass(frozen=True, kw_only=True)
class Fill:
    """Batches in few shapes: rows, tokens and the longest row are rounded up to multiples of these.

    Padded batches pay for every cell that is filled up, so theirs are smaller.
    """

    rows: int = 64
    tokens: int = 512
    longest: int = 8
    padded_rows: int = 32
    padded_longest: int = 4

    def __call__(self, batch: Any) -> Any:
        """The same batch, filled up with <pad> labels. Segments of a text have one shape and stay as they are."""
        if isinstance(batch, Labelled):
            # no elements are added: a model's penalty would count them
            sentences = batch.sentences
            num_rows, length = sentences.ids.shape
            return replace(
                batch, sentences=widened(sentences, num_rows=num_rows, length=up(length, self.padded_longest))
            )
        if not isinstance(batch, Batch):
            return batch
        source, target = batch.source, batch.target
        if isinstance(source, PaddedTokens) and isinstance(target, PaddedTokens):
            return self._padded(batch, source, target)
        if not (isinstance(source, PackedTokens) and isinstance(target, PackedTokens)):
            kinds = f"{type(source).__name__} and {type(target).__name__}"
            raise ValueError(f"source and target are {kinds}, expected both padded or both packed.")
        shapes = [self._shape(side) for side in (source, target)]
        num_rows = max(self._rows(side, shape) for side, shape in zip((source, target), shapes, strict=True))
        filled = [
            side.fill(num_rows=num_rows, num_tokens=tokens, max_seqlen=longest)
            for side, (tokens, longest) in zip((source, target), shapes, strict=True)
        ]
        labels = torch.full_like(filled[1].ids, PAD)
        labels[: len(batch.labels)] = batch.labels
        return replace(batch, source=filled[0], target=filled[1], labels=labels)

    def _padded(self, batch: Batch, source: PaddedTokens, target: PaddedTokens) -> Batch:
        num_rows = up(source.ids.shape[0], self.padded_rows)
        filled = [
            widened(side, num_rows=num_rows, length=up(side.ids.shape[1], self.padded_longest))
            for side in (source, target)
        ]
        labels = torch.full_like(filled[1].ids, PAD)
        labels[: batch.labels.shape[0], : batch.labels.shape[1]] = batch.labels
        return replace(batch, source=filled[0], target=filled[1], labels=labels)

    def _shape(self, side: PackedTokens) -> tuple[int, int]:
        return up(side.ids.shape[0], self.tokens), up(side.max_seqlen, self.longest)

    def _rows(self, side: PackedTokens, shape: tuple[int, int]) -> int:
        missing = shape[0] - side.ids.shape[0]
        return up(side.cu_seqlens.shape[0] - 1 + -(-missing // shape[1]), self.rows)


FILL = Fill()
"""The default: few shapes, and so few graphs."""


def widened(rows: PaddedTokens, *, num_rows: int, length: int) -> PaddedTokens:
    """The same texts in a larger rectangle, with further texts of one token."""
    ids = torch.full((num_rows, length), PAD, dtype=rows.ids.dtype)
    ids[: rows.ids.shape[0], : rows.ids.shape[1]] = rows.ids
    lengths = torch.ones(num_rows, dtype=rows.lengths.dtype)
    lengths[: len(rows.lengths)] = rows.lengths
    return PaddedTokens(ids, lengths)


def up(count: int, multiple: int) -> int:
    """The next multiple, at least one."""
    return max(-(-count // multiple), 1) * multiple


@dataclass(kw_only=True)
class Captured:
    """One shape's graph, the tensors it reads, and the loss it writes."""

    batch: Any
    weight: Tensor
    runs: int = 0
    graph: Any = None
    loss: Tensor | None = None


class GraphedStep:
    """Forward, backward, clip and update by graphs, one a shape, on the CUDA device of `module`.

    `objective` computes a batch's summed loss with the parameters of `module`. While `reasons` returns any, `readable`
    does, without graphs. Graphs are dropped when what `edits` returns is not what it returned at their capture. A step
    that cannot be captured raises an error; with `cautious` it is recognised before its capture where possible:
    `failure` then says why, and from then on no step is captured.
    """

    def __init__(
        self,
        objective: Callable[[Any], Tensor],
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float | None = None,
        readable: Callable[[Any], Tensor] | None = None,
        reasons: Callable[[], list[str]] = list,
        edits: Callable[[], list[str]] = list,
        cautious: bool = False,
    ) -> None:
        self.objective, self.readable = objective, readable or objective
        self.reasons, self.edits = reasons, edits
        self.module, self.optimizer, self.clip_norm = module, optimizer, clip_norm
        self.cautious, self.failure = cautious, ""
        self.shapes: dict[tuple[Any, ...], Captured] = {}
        self.identity: list[tuple[Any, ...]] = []
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self.device = next(module.parameters()).device
        self.learning_rate = torch.zeros((), device=self.device)

    def __call__(self, batch: Any, *, num_tokens: int, learning_rate: float) -> Tensor:
        """One step on a filled batch from the host; the summed loss, still on the device."""
        self.learning_rate.fill_(learning_rate)
        for group in self.optimizer.param_groups:
            # a graph reads the rate from the tensor that was captured, and "capturable" makes the update read a tensor
            group["lr"], group["capturable"] = self.learning_rate, True
        is_readable = bool(self.reasons())
        # hooks and traces are edits too; as they end, the graphs that they leave unused are valid again
        if not is_readable and (identity := [*identity_of(self.module), tuple(self.edits())]) != self.identity:
            self.drop()
            self.identity = identity
        shape = shape_of(batch)
        captured = self._buffers_of(batch, shape)
        captured.weight.fill_(1.0 / num_tokens)
        if is_readable or shape not in self.shapes:
            return self._eager(captured, self.readable)
        captured.runs += 1
        if captured.runs < WARM_UP or (captured.runs == WARM_UP and not self.cautious):
            return self._eager(captured, self.objective)
        if captured.runs == WARM_UP:
            return self._rehearse(captured)
        if captured.graph is None:
            self._capture(captured)
        captured.graph.replay()
        # autograd does not notice that a replay changes the weights: what was computed from them must be recomputed
        torch.autograd.graph.increment_version(self._parameters())
        assert captured.loss is not None
        return captured.loss

    def _buffers_of(self, batch: Any, shape: tuple[Any, ...]) -> Captured:
        """The batch on the device, in the tensors that the graph of its shape reads, or in new ones."""
        if shape in self.shapes:
            copy_batch(batch, self.shapes[shape].batch)
            return self.shapes[shape]
        on_device = map_tensors(lambda tensor: tensor.to(self.device, non_blocking=True), batch)
        captured = Captured(batch=on_device, weight=torch.zeros((), device=self.device))
        if not self.failure and len(self.shapes) < MOST_SHAPES:
            self.shapes[shape] = captured
        return captured

    def drop(self) -> None:
        """Delete all graphs; shapes that occur again are captured again."""
        self.shapes.clear()
        # gradients are in the memory of the graphs, whose pool cannot be used again once all graphs are deleted
        self.optimizer.zero_grad(set_to_none=True)
        self.pool = torch.cuda.graph_pool_handle()

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def _eager(self, captured: Captured, objective: Callable[[Any], Tensor]) -> Tensor:
        # a graph is captured on a stream of its own, so the warm-up runs there too
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self._run(captured, objective)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _rehearse(self, captured: Captured) -> Tensor:
        """The last eager step of a shape, in which operations that would end its capture are detected."""
        mode = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                loss = self._eager(captured, self.objective)
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        if any("called a synchronizing CUDA operation" in str(warning.message) for warning in caught):
            self.failure = "the step waits for the device, which no graph can"
        elif not has_room():
            self.failure = "a graph needs as much memory again as a step, which the GPU does not have"
        if self.failure:
            self.drop()
            for group in self.optimizer.param_groups:
                group["capturable"] = False
        return loss

    def _capture(self, captured: Captured) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # the thread that prepares batches may pin memory meanwhile; in this mode its calls do not end the capture
        capture = torch.cuda.graph(graph, stream=self.stream, pool=self.pool, capture_error_mode="thread_local")
        try:
            with capture:
                loss = self._run(captured, self.objective)
        except RuntimeError as error:
            raise RuntimeError(
                f"the training step could not be captured as a CUDA graph: {error}. A loss or logits computed outside "
                "the step and still alive with their gradients prevent it: detach them, or compute them under "
                "torch.no_grad(). Or train without graphs: training.compute.step=eager."
            ) from error
        captured.graph, captured.loss = graph, loss

    def _run(self, captured: Captured, objective: Callable[[Any], Tensor]) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = objective(captured.batch)
        (loss * captured.weight).backward()
        if self.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters(), self.clip_norm, foreach=True)
        self.optimizer.step()
        return loss.detach()


def identity_of(module: nn.Module) -> list[tuple[Any, ...]]:
    """Address and layout of every parameter and buffer, and the mode of every module."""
    identity: list[tuple[Any, ...]] = []
    for part in module.modules():
        identity.append((part.training,))
        for tensor in (*part._parameters.values(), *part._buffers.values()):
            if tensor is not None:
                layout = (tensor.shape, tensor.stride(), tensor.dtype)
                identity.append((tensor.data_ptr(), *layout, tensor.requires_grad))
    return identity


def has_room() -> bool:
    """Whether the GPU has memory for a graph beside eager steps: twice that of the largest step."""
    allocated = torch.cuda.memory_allocated()
    unused = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - allocated
    return unused >= 2 * (torch.cuda.max_memory_allocated() - allocated)


def shape_of(batch: Any) -> tuple[Any, ...]:
    """What must be equal in two batches that use one graph."""
    sides = (batch.source, batch.target) if isinstance(batch, Batch) else ()
    longest = tuple(side.max_seqlen for side in sides if isinstance(side, PackedTokens))
    return (*(tuple(tensor.shape) for tensor in leaves(batch)), *longest)


def copy_batch(batch: Any, buffers: Any) -> None:
    """Copy a batch's tensors into those that a graph reads."""
    for new, old in zip(leaves(batch), leaves(buffers), strict=True):
        old.copy_(new, non_blocking=True)
