"""A training step as one CUDA graph: small models on large GPUs wait for launches, a graph launches once.

    copy the batch into the graph's own tensors -> replay: forward, backward, clip, update

A graph is of one shape, so batches are filled up to a few shapes, packed ones and padded ones. The first steps of each
shape run as they are, which warms up kernels and allocations; then the step is captured, and from then on replayed. The
numbers are those of the eager step, to rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.contracts import PAD, Batch, Packed, Sequences, leaves, map_tensors

WARM_UP = 3
"""Steps of each shape before it is captured."""
MOST_SHAPES = 128
"""Graphs that are kept; batches of yet other shapes run as they are."""


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
        """The same rows, filled up; labels of the fill are <pad>. What is no pair of sides stays as it is."""
        if not isinstance(batch, Batch):
            return batch
        source, target = batch.source, batch.target
        if isinstance(source, Sequences) and isinstance(target, Sequences):
            return self._padded(batch, source, target)
        if not (isinstance(source, Packed) and isinstance(target, Packed)):
            kinds = f"{type(source).__name__} and {type(target).__name__}"
            raise ValueError(f"source and target are {kinds}, expected both padded or both packed.")
        shapes = [self._shape(side) for side in (source, target)]
        num_rows = max(self._rows(side, shape) for side, shape in zip((source, target), shapes, strict=True))
        filled = [
            side.fill(num_rows=num_rows, num_tokens=tokens, longest=longest)
            for side, (tokens, longest) in zip((source, target), shapes, strict=True)
        ]
        labels = torch.full_like(filled[1].ids, PAD)
        labels[: len(batch.labels)] = batch.labels
        return replace(batch, source=filled[0], target=filled[1], labels=labels)

    def _padded(self, batch: Batch, source: Sequences, target: Sequences) -> Batch:
        num_rows = up(source.ids.shape[0], self.padded_rows)
        filled = [
            widened(side, num_rows=num_rows, length=up(side.ids.shape[1], self.padded_longest))
            for side in (source, target)
        ]
        labels = torch.full_like(filled[1].ids, PAD)
        labels[: batch.labels.shape[0], : batch.labels.shape[1]] = batch.labels
        return replace(batch, source=filled[0], target=filled[1], labels=labels)

    def _shape(self, side: Packed) -> tuple[int, int]:
        return up(side.ids.shape[0], self.tokens), up(side.longest, self.longest)

    def _rows(self, side: Packed, shape: tuple[int, int]) -> int:
        missing = shape[0] - side.ids.shape[0]
        return up(side.offsets.shape[0] - 1 + -(-missing // shape[1]), self.rows)


FILL = Fill()
"""Few shapes, and so few graphs."""


def widened(rows: Sequences, *, num_rows: int, length: int) -> Sequences:
    """The same rows, and as many more of one token as it takes, in a larger rectangle."""
    ids = torch.full((num_rows, length), PAD, dtype=rows.ids.dtype)
    ids[: rows.ids.shape[0], : rows.ids.shape[1]] = rows.ids
    lengths = torch.ones(num_rows, dtype=rows.lengths.dtype)
    lengths[: len(rows.lengths)] = rows.lengths
    return Sequences(ids, lengths)


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
    """Forward, backward, clip and update of an objective by graphs, one a shape, on the current CUDA device."""

    def __init__(
        self,
        objective: Callable[[Any], Tensor],
        parameters: list[nn.Parameter],
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float | None = None,
    ) -> None:
        self.objective, self.parameters, self.optimizer = objective, parameters, optimizer
        self.clip_norm = clip_norm
        self.shapes: dict[tuple[Any, ...], Captured] = {}
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self.learning_rate = torch.zeros((), device="cuda")

    def __call__(self, batch: Any, *, num_tokens: int, learning_rate: float) -> Tensor:
        """One step on a filled batch from the host; the summed loss, still on the device."""
        self.learning_rate.fill_(learning_rate)
        for group in self.optimizer.param_groups:
            # a graph reads the rate where it was when captured: a tensor, and one that can be captured at all
            group["lr"], group["capturable"] = self.learning_rate, True
        shape = shape_of(batch)
        if shape not in self.shapes:
            given = map_tensors(lambda tensor: tensor.cuda(non_blocking=True), batch)
            made = Captured(batch=given, weight=torch.full((), 1.0 / num_tokens, device="cuda"))
            if len(self.shapes) >= MOST_SHAPES:
                return self._eager(made)
            self.shapes[shape] = made
        captured = self.shapes[shape]
        copy_batch(batch, captured.batch)
        captured.weight.fill_(1.0 / num_tokens)
        captured.runs += 1
        if captured.runs <= WARM_UP:
            return self._eager(captured)
        if captured.graph is None:
            self._capture(captured)
        captured.graph.replay()
        # a replay changes the weights without torch's noticing; whatever was made of them must be made anew
        torch.autograd.graph.increment_version(self.parameters)
        assert captured.loss is not None
        return captured.loss

    def _eager(self, captured: Captured) -> Tensor:
        # a graph is captured on a stream of its own, and so warmed up there
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self._run(captured)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _capture(self, captured: Captured) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # the thread that prepares batches may pin memory meanwhile: its calls are not captured
        capture = torch.cuda.graph(graph, stream=self.stream, pool=self.pool, capture_error_mode="thread_local")
        try:
            with capture:
                loss = self._run(captured)
        except RuntimeError as error:
            raise RuntimeError(
                f"the training step could not be captured as a CUDA graph: {error}. A loss or logits computed outside "
                "the step and still alive with their gradients prevent it: detach them, or compute them under "
                "torch.no_grad(). Or train without graphs: training.compute.step=eager."
            ) from error
        captured.graph, captured.loss = graph, loss

    def _run(self, captured: Captured) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.objective(captured.batch)
        (loss * captured.weight).backward()
        if self.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip_norm, foreach=True)
        self.optimizer.step()
        return loss.detach()


def shape_of(batch: Any) -> tuple[Any, ...]:
    """What two batches must share to share a graph."""
    sides = (batch.source, batch.target) if isinstance(batch, Batch) else ()
    longest = tuple(side.longest for side in sides if isinstance(side, Packed))
    return (*(tuple(tensor.shape) for tensor in leaves(batch)), *longest)


def copy_batch(given: Any, kept: Any) -> None:
    """Write a batch's tensors into those a graph reads."""
    for new, old in zip(leaves(given), leaves(kept), strict=True):
        old.copy_(new, non_blocking=True)
