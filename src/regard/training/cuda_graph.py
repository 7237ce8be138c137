"""A training step as one CUDA graph: small models on large GPUs wait for launches, a graph launches once.

    copy the batch into the graph's own tensors -> replay: forward, backward, clip, update

A graph is of one shape, so batches are filled up to a few shapes, packed ones and padded ones. The first steps of each
shape run as they are, which warms up kernels and allocations; then the step is captured, and from then on replayed. The
numbers are those of the eager step, to rounding.

A replay runs the kernels that were captured, on the tensors that were captured. Graphs are therefore dropped when a
parameter or buffer of the model is another tensor than it was or a part changes between training and evaluation mode,
and no graph is used while the model has hooks or a replaced `forward`.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.contracts import PAD, Batch, Labelled, PackedTokens, PaddedTokens, has_hooks, leaves, map_tensors
from regard.training.settings import ComputeSettings, StepKind

WARM_UP = 3
"""Steps of each shape before it is captured."""
MOST_SHAPES = 128
"""Graphs that are kept; batches of yet other shapes run as they are."""


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
    """What `settings.step` comes to here; a kind that was asked for by name and cannot run is refused."""
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
    """Why a captured step would leave out what was done to the model."""
    reasons = ["the model has hooks"] if has_hooks(model) else []
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
        """The same rows, filled up; labels of the fill are <pad>. Segments of a text have one shape and stay as is."""
        if isinstance(batch, Labelled):
            # no rows are added: a model's penalty would count them
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
            side.pad_to(batch_size=num_rows, num_tokens=tokens, max_seqlen=longest)
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
"""Few shapes, and so few graphs."""


def widened(rows: PaddedTokens, *, num_rows: int, length: int) -> PaddedTokens:
    """The same rows, and as many more of one token as it takes, in a larger rectangle."""
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

    `objective` computes a batch's summed loss with the parameters of `module`; while `reasons` returns any, `readable`
    does, without graphs. A step that cannot be captured raises an error, or with `cautious` is found out before its
    capture where possible: `failure` then says why, and from then on no step is captured.
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
        cautious: bool = False,
    ) -> None:
        self.objective, self.readable, self.reasons = objective, readable or objective, reasons
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
            # a graph reads the rate where it was when captured: a tensor, and one that can be captured at all
            group["lr"], group["capturable"] = self.learning_rate, True
        if (identity := identity_of(self.module)) != self.identity:
            self.drop()
            self.identity = identity
        shape = shape_of(batch)
        if shape not in self.shapes:
            on_device = map_tensors(lambda tensor: tensor.to(self.device, non_blocking=True), batch)
            new = Captured(batch=on_device, weight=torch.full((), 1.0 / num_tokens, device=self.device))
            if self.failure or len(self.shapes) >= MOST_SHAPES:
                return self._eager(new, self.readable)
            self.shapes[shape] = new
        captured = self.shapes[shape]
        copy_batch(batch, captured.batch)
        captured.weight.fill_(1.0 / num_tokens)
        if self.reasons():
            return self._eager(captured, self.readable)
        captured.runs += 1
        if captured.runs < WARM_UP or (captured.runs == WARM_UP and not self.cautious):
            return self._eager(captured, self.objective)
        if captured.runs == WARM_UP:
            return self._rehearse(captured)
        if captured.graph is None:
            self._capture(captured)
        captured.graph.replay()
        # a replay changes the weights without torch's noticing; whatever was made of them must be made anew
        torch.autograd.graph.increment_version(self._parameters())
        assert captured.loss is not None
        return captured.loss

    def drop(self) -> None:
        """Forget all graphs; shapes that occur again are captured again."""
        self.shapes.clear()
        # gradients lie in the memory of the graphs, whose pool cannot be used again once all of them are gone
        self.optimizer.zero_grad(set_to_none=True)
        self.pool = torch.cuda.graph_pool_handle()

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def _eager(self, captured: Captured, objective: Callable[[Any], Tensor]) -> Tensor:
        # a graph is captured on a stream of its own, and so warmed up there
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self._run(captured, objective)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _rehearse(self, captured: Captured) -> Tensor:
        """The last eager step of a shape, with a look at what would end its capture."""
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
        # the thread that prepares batches may pin memory meanwhile: its calls are not captured
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
    """Where and how every parameter and buffer lies, and the mode of every part: what a captured step depends on."""
    identity: list[tuple[Any, ...]] = []
    for part in module.modules():
        identity.append((part.training,))
        for tensor in (*part._parameters.values(), *part._buffers.values()):
            if tensor is not None:
                layout = (tensor.shape, tensor.stride(), tensor.dtype)
                identity.append((tensor.data_ptr(), *layout, tensor.requires_grad))
    return identity


def has_room() -> bool:
    """Whether the GPU has memory for a graph beside eager steps: twice what the largest step took."""
    allocated = torch.cuda.memory_allocated()
    unused = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - allocated
    return unused >= 2 * (torch.cuda.max_memory_allocated() - allocated)


def shape_of(batch: Any) -> tuple[Any, ...]:
    """What two batches must share to share a graph."""
    sides = (batch.source, batch.target) if isinstance(batch, Batch) else ()
    longest = tuple(side.max_seqlen for side in sides if isinstance(side, PackedTokens))
    return (*(tuple(tensor.shape) for tensor in leaves(batch)), *longest)


def copy_batch(given: Any, kept: Any) -> None:
    """Write a batch's tensors into those a graph reads."""
    for new, old in zip(leaves(given), leaves(kept), strict=True):
        old.copy_(new, non_blocking=True)
