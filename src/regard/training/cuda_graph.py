"""A training step as one CUDA graph: one launch per step, where launch overhead limits small models on large GPUs.

    copy the batch into the input tensors of the graph -> replay: forward, backward, clip, update

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
    ClassificationBatch,
    PackedTokens,
    PaddedTokens,
    active_recorders,
    has_hooks,
    leaves,
    map_tensors,
)
from regard.training.settings import ComputeSettings, StepMode

WARM_UP = 3
"""Eager steps of each shape before it is captured."""
MOST_SHAPES = 128
"""Upper bound for the number of graphs; batches of further shapes run eagerly."""


@dataclass(frozen=True, kw_only=True)
class StepChoice:
    """How training steps run; `reasons` are those against CUDA graphs for "auto"."""

    mode: StepMode
    reasons: tuple[str, ...] = ()

    @property
    def is_compiled(self) -> bool:
        """True if the step is compiled before it is captured."""
        return self.mode == "compiled"

    @property
    def uses_graph(self) -> bool:
        """True if steps are replayed as CUDA graphs."""
        return self.is_compiled or self.mode == "graphed"

    def __str__(self) -> str:
        if self.uses_graph:
            return "Training steps are replayed as CUDA graphs: the device, the number of processes and the model suit."
        without = f", without CUDA graphs: {'; '.join(self.reasons)}" if self.reasons else ""
        return f"Training steps run eagerly{without}."


def choose_step(
    settings: ComputeSettings, model: nn.Module, *, device: torch.device, num_processes: int, capturable: bool
) -> StepChoice:
    """Resolve `settings.step`: "auto" chooses by what is supported, another mode that cannot run raises ValueError."""
    reasons = reasons_against_capture(settings, device=device, num_processes=num_processes)
    if settings.step == "auto":
        if not capturable:
            reasons.append("the model does not declare its step as capturable (capturable=True)")
        reasons += reasons_against_replay(model)
        return StepChoice(mode="eager" if reasons else "graphed", reasons=tuple(reasons))
    # a mode that was chosen by name fails only where it is impossible, not where it is inadvisable
    if settings.step != "eager" and reasons:
        raise ValueError(
            f"a {settings.step} step needs one process on one CUDA device, without accumulation, but "
            f"{' and '.join(reasons)}. Choose compute.step=auto."
        )
    return StepChoice(mode=settings.step)


def reasons_against_capture(settings: ComputeSettings, *, device: torch.device, num_processes: int) -> list[str]:
    """Reasons why no training step can be captured in this process."""
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
    # an attribute of the instance hides the method of the class
    names = [type(part).__name__ for part in model.modules() if "forward" in part.__dict__]
    return [*reasons, *(f"the forward of a {name} was replaced" for name in names)]


@dataclass(frozen=True, kw_only=True)
class ShapePadder:
    """Pads batches to few shapes: the numbers of rows, of tokens and the longest row become multiples of these.

    Padded batches compute every padding cell, so their multiples are smaller.
    """

    rows: int = 64
    tokens: int = 512
    longest: int = 8
    padded_rows: int = 32
    padded_longest: int = 4

    def __call__(self, batch: Any) -> Any:
        """The same batch with padding, whose labels are <pad>. Segments of a text have one shape and are not padded."""
        if isinstance(batch, ClassificationBatch):
            # no rows are added, because the penalty term of a model would count them
            length = round_up(batch.sentences.ids.shape[1], self.padded_longest)
            return replace(batch, sentences=batch.sentences.pad_to(length=length))
        if not isinstance(batch, Batch):
            return batch
        source, target = batch.source, batch.target
        if isinstance(source, PaddedTokens) and isinstance(target, PaddedTokens):
            return self._padded(batch, source, target)
        if not (isinstance(source, PackedTokens) and isinstance(target, PackedTokens)):
            kinds = f"{type(source).__name__} and {type(target).__name__}"
            raise TypeError(f"source and target are {kinds}, expected both padded or both packed.")
        shapes = [self._shape(side) for side in (source, target)]
        # a pair has a row on both sides, so the two numbers of rows must be equal
        num_rows = max(self._rows(side, shape) for side, shape in zip((source, target), shapes, strict=True))
        padded = [
            side.pad_to(batch_size=num_rows, num_tokens=tokens, max_seqlen=longest)
            for side, (tokens, longest) in zip((source, target), shapes, strict=True)
        ]
        # added positions keep the label <pad>, which has no loss
        labels = torch.full_like(padded[1].ids, PAD)
        labels[: len(batch.labels)] = batch.labels
        return replace(batch, source=padded[0], target=padded[1], labels=labels)

    def _padded(self, batch: Batch, source: PaddedTokens, target: PaddedTokens) -> Batch:
        num_rows = round_up(source.ids.shape[0], self.padded_rows)
        padded = [
            side.pad_to(batch_size=num_rows, length=round_up(side.ids.shape[1], self.padded_longest))
            for side in (source, target)
        ]
        labels = torch.full_like(padded[1].ids, PAD)
        labels[: batch.labels.shape[0], : batch.labels.shape[1]] = batch.labels
        return replace(batch, source=padded[0], target=padded[1], labels=labels)

    def _shape(self, side: PackedTokens) -> tuple[int, int]:
        return round_up(side.ids.shape[0], self.tokens), round_up(side.max_seqlen, self.longest)

    def _rows(self, side: PackedTokens, shape: tuple[int, int]) -> int:
        # the added tokens are in rows of their own, none longer than max_seqlen
        missing = shape[0] - side.ids.shape[0]
        # cu_seqlens has one entry more than rows; -(-a // b) rounds up
        return round_up(side.cu_seqlens.shape[0] - 1 + -(-missing // shape[1]), self.rows)


SHAPE_PADDER = ShapePadder()
"""The padding of the training engine: few shapes, and therefore few graphs."""


def round_up(count: int, multiple: int) -> int:
    """The next multiple, at least one times `multiple`."""
    # a negated floor division rounds up without floats
    return max(-(-count // multiple), 1) * multiple


@dataclass(kw_only=True)
class ShapeGraph:
    """The graph of one shape, its input tensors, and the loss it writes."""

    batch: Any
    weight: Tensor
    runs: int = 0
    graph: Any = None
    loss: Tensor | None = None


class GraphedStep:
    """Forward, backward, clip and update with one graph per shape, on the CUDA device of `module`.

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
        self.shapes: dict[tuple[Any, ...], ShapeGraph] = {}
        self.identity: list[tuple[Any, ...]] = []
        # a capture needs a stream other than the default one
        # the graphs share one memory pool, because only one of them runs at a time
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self.device = next(module.parameters()).device
        # a tensor, because a capture would fix a Python number, and the rate changes at every step
        self.learning_rate = torch.zeros((), device=self.device)

    def __call__(self, batch: Any, *, num_tokens: int, learning_rate: float) -> Tensor:
        """One step on a padded batch on the host; returns the summed loss as a tensor on the device."""
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
        graph = self._buffers_of(batch, shape)
        # an input of the graph too: the number of tokens differs from batch to batch
        graph.weight.fill_(1.0 / num_tokens)
        if is_readable or shape not in self.shapes:
            return self._eager(graph, self.readable)
        graph.runs += 1
        if graph.runs < WARM_UP or (graph.runs == WARM_UP and not self.cautious):
            return self._eager(graph, self.objective)
        if graph.runs == WARM_UP:
            return self._rehearse(graph)
        if graph.graph is None:
            self._capture(graph)
        # the copies above were put on the same stream, so the replay runs after them
        graph.graph.replay()
        # autograd does not notice that a replay changes the weights: what was computed from them must be recomputed
        torch.autograd.graph.increment_version(self._parameters())
        assert graph.loss is not None
        # the next replay overwrites this tensor, so the caller has to use it before
        return graph.loss

    def _buffers_of(self, batch: Any, shape: tuple[Any, ...]) -> ShapeGraph:
        """The batch on the device, in the tensors that the graph of its shape reads, or in new ones."""
        if shape in self.shapes:
            copy_batch(batch, self.shapes[shape].batch)
            return self.shapes[shape]
        on_device = map_tensors(lambda tensor: tensor.to(self.device, non_blocking=True), batch)
        captured = ShapeGraph(batch=on_device, weight=torch.zeros((), device=self.device))
        # a shape beyond the limit is not stored, and runs eagerly
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

    def _eager(self, graph: ShapeGraph, objective: Callable[[Any], Tensor]) -> Tensor:
        # warmed up on the stream on which the graph will be captured, as torch requires
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self._run(graph, objective)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _rehearse(self, graph: ShapeGraph) -> Tensor:
        """The last eager step of a shape, checked for what would make its capture fail."""
        mode = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            # torch then warns of every operation that waits for the device
            torch.cuda.set_sync_debug_mode("warn")
            try:
                loss = self._eager(graph, self.objective)
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        if any("called a synchronizing CUDA operation" in str(record.message) for record in records):
            self.failure = "the step synchronises with the device, which a graph cannot contain"
        elif not has_room():
            self.failure = "a graph needs as much memory as another step, which the GPU does not have"
        if self.failure:
            self.drop()
            # eager steps do not need the optimizer state to be capturable
            for group in self.optimizer.param_groups:
                group["capturable"] = False
        return loss

    def _capture(self, graph: ShapeGraph) -> None:
        # backward must allocate the gradients during the capture, in the pool of the graph
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        cuda_graph = torch.cuda.CUDAGraph()
        # thread_local: the prefetcher's thread may pin memory during the capture
        capture = torch.cuda.graph(cuda_graph, stream=self.stream, pool=self.pool, capture_error_mode="thread_local")
        try:
            with capture:
                loss = self._run(graph, self.objective)
        except RuntimeError as error:
            raise RuntimeError(
                f"the training step could not be captured as a CUDA graph: {error}. A loss or "
                "logits computed outside the step prevent it while their autograd graph is alive: detach them, or "
                "compute them under torch.no_grad(). Or train without graphs: training.compute.step=eager."
            ) from error
        # assigned last: a capture that fails leaves no graph
        graph.graph, graph.loss = cuda_graph, loss

    def _run(self, graph: ShapeGraph, objective: Callable[[Any], Tensor]) -> Tensor:
        # None, not 0: backward then writes the gradients instead of adding to them
        self.optimizer.zero_grad(set_to_none=True)
        loss = objective(graph.batch)
        (loss * graph.weight).backward()
        if self.clip_norm is not None:
            # the factor is computed on the device: reading the norm here would make the step synchronise
            torch.nn.utils.clip_grad_norm_(self._parameters(), self.clip_norm, foreach=True)
        self.optimizer.step()
        return loss.detach()


def identity_of(module: nn.Module) -> list[tuple[Any, ...]]:
    """What a captured step depends on: address and layout of parameters and buffers, and the mode of modules."""
    identity: list[tuple[Any, ...]] = []
    for submodule in module.modules():
        identity.append((submodule.training,))
        # read at every step, so from the dictionaries, without the generators of torch
        for tensor in (*submodule._parameters.values(), *submodule._buffers.values()):
            if tensor is not None:
                layout = (tensor.shape, tensor.stride(), tensor.dtype)
                identity.append((tensor.data_ptr(), *layout, tensor.requires_grad))
    return identity


def has_room() -> bool:
    """True if the GPU has memory for a graph in addition to eager steps: twice that of the largest step."""
    allocated = torch.cuda.memory_allocated()
    # free on the device, and reserved by torch without being in use
    unused = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - allocated
    return unused >= 2 * (torch.cuda.max_memory_allocated() - allocated)


def shape_of(batch: Any) -> tuple[Any, ...]:
    """The shapes of all tensors, and the longest rows: equal for batches that can use the same graph."""
    sides = (batch.source, batch.target) if isinstance(batch, Batch) else ()
    # packed batches of equal shapes may differ in max_seqlen, which kernels get as a number
    longest = tuple(side.max_seqlen for side in sides if isinstance(side, PackedTokens))
    return (*(tuple(tensor.shape) for tensor in leaves(batch)), *longest)


def copy_batch(source: Any, target: Any) -> None:
    """Copy the tensors of a batch into the input tensors of a graph."""
    for new, old in zip(leaves(source), leaves(target), strict=True):
        old.copy_(new, non_blocking=True)
