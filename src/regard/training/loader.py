"""Batch loading: the global batches of every epoch, the share of this process, and prefetching in a thread.

Every process enumerates the same global batches and takes its share of the examples: process r of n, part m of k
(accumulation), takes share m n + r of n k. The loss is divided by the number of target tokens of the whole global
batch, so one process, several processes, and accumulation give the same gradient.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from regard.contracts import map_tensors


@runtime_checkable
class BatchOrder(Protocol):
    """Assigns examples to batches."""

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        """The global batches of an epoch as indices of examples; deterministic, and equal on every machine."""
        ...


@runtime_checkable
class TrainingData(Protocol):
    """Data for training. No method may draw from the global random generators."""

    @property
    def order(self) -> BatchOrder:
        """The batches of every epoch."""
        ...

    def share(self, indices: Sequence[int], part: int, of: int) -> Sequence[int]:
        """Part number `part` of a global batch split into `of`; the parts are disjoint, and some may be empty."""
        ...

    def num_tokens(self, indices: Sequence[int]) -> int:
        """The number of labels of these examples."""
        ...

    def make(self, indices: Sequence[int]) -> Any:
        """These examples as a pytree of tensors on the CPU, such as a Batch."""
        ...


@dataclass(frozen=True)
class Position:
    """The next global batch: its epoch, and its index in the epoch."""

    epoch: int = 0
    index: int = 0


@dataclass(frozen=True)
class StepBatches:
    """The batches of one training step in one process: one per accumulation part, with whether its loss counts.

    `num_tokens` is that of the global batch, `next_position` is that of the next step.
    """

    parts: tuple[tuple[Any, bool], ...]
    num_tokens: int
    epoch: int
    ends_epoch: bool
    next_position: Position


@dataclass(frozen=True, kw_only=True)
class BatchLoader:
    """The batches of process `rank` of `num_processes`, without end."""

    data: TrainingData
    rank: int
    num_processes: int
    accumulation: int
    pin: bool
    reshape: Callable[[Any], Any] | None = None
    """Pads a batch to the shape that the step needs; runs in the loader, while the model computes."""

    def steps(self, position: Position) -> Iterator[StepBatches]:
        """The batches of every step from a position on; an epoch without batches raises ValueError."""
        while True:
            batches = self.data.order.epoch(position.epoch)
            if not batches:
                raise ValueError(f"epoch {position.epoch} has no batches: the training data are empty.")
            # only the first epoch after resuming begins in the middle
            for index in range(position.index, len(batches)):
                last = index + 1 == len(batches)
                yield StepBatches(
                    parts=self._parts(batches[index]),
                    # a batch without any label has loss 0, which must not be divided by 0
                    num_tokens=max(self.data.num_tokens(batches[index]), 1),
                    epoch=position.epoch,
                    ends_epoch=last,
                    next_position=Position(position.epoch + 1, 0) if last else Position(position.epoch, index + 1),
                )
            position = Position(position.epoch + 1, 0)

    def _parts(self, indices: Sequence[int]) -> tuple[tuple[Any, bool], ...]:
        """The parts of this process, each with whether its loss counts."""
        parts = []
        num_shares = self.num_processes * self.accumulation
        for part in range(self.accumulation):
            own = self.data.share(indices, part * self.num_processes + self.rank, num_shares)
            # an empty share computes one dummy example, so that collectives stay in sync; its loss does not count
            batch = self.data.make(own if own else indices[:1])
            batch = batch if self.reshape is None else self.reshape(batch)
            # copies to the GPU are asynchronous only from pinned memory
            parts.append((map_tensors(torch.Tensor.pin_memory, batch) if self.pin else batch, bool(own)))
        return tuple(parts)


class Prefetcher:
    """Runs an iterator in a thread, at most `count` items ahead; the order is kept, and errors are raised here."""

    def __init__(self, items: Iterator[Any], count: int) -> None:
        # a full queue blocks the thread, which bounds the memory of prepared batches
        self._queue: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=count)
        self._closed = threading.Event()
        # a daemon does not keep the interpreter alive after an error
        self._thread = threading.Thread(target=self._run, args=(items,), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the items."""
        while True:
            item, error = self._queue.get()
            if error is not None:
                raise error
            yield item

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()
        # the thread may block on a full queue, so items are removed until it has ended
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue

    def _run(self, items: Iterator[Any]) -> None:
        try:
            for item in items:
                self._queue.put((item, None))
                # checked after the put, which `close` unblocks
                if self._closed.is_set():
                    return
        # of any kind: without an item the consumer would wait forever
        except BaseException as error:
            self._queue.put((None, error))
