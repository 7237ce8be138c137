"""Batches on their way to the model: which rows, whose share, prepared a few steps ahead.

Every process knows every global batch, and takes its share of the rows: process r of n, part m of k (accumulation),
takes share m n + r of n k. The loss is divided by the number of target tokens of the whole global batch, so that one
process, many, and accumulation give the same gradient.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from regard.contracts import map_tensors


@runtime_checkable
class Order(Protocol):
    """Which rows make which batch."""

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        """The global batches of an epoch, the same on every machine."""
        ...


@runtime_checkable
class TrainingData(Protocol):
    """What training needs of data. Nothing here may draw from the global random generators."""

    @property
    def order(self) -> Order:
        """Which rows make which batch."""
        ...

    def share(self, indices: Sequence[int], part: int, of: int) -> Sequence[int]:
        """Part number `part` of a global batch cut into `of`; the parts are disjoint, and some may be empty."""
        ...

    def num_tokens(self, indices: Sequence[int]) -> int:
        """How many labels these rows have."""
        ...

    def make(self, indices: Sequence[int]) -> Any:
        """These rows as a nest of tensors on the CPU, such as a Batch."""
        ...


@dataclass(frozen=True)
class Position:
    """The next global batch: its epoch, and its place in it."""

    epoch: int = 0
    index: int = 0


@dataclass(frozen=True)
class Work:
    """One step's work for one process: its parts, each with whether it counts, and what all processes share."""

    parts: tuple[tuple[Any, bool], ...]
    num_tokens: int
    epoch: int
    ends_epoch: bool
    following: Position


@dataclass(frozen=True, kw_only=True)
class Feed:
    """The work of process `rank` of `num_processes`, from a position on, without end."""

    data: TrainingData
    rank: int
    num_processes: int
    accumulation: int
    pin: bool
    reshape: Callable[[Any], Any] | None = None
    """The same rows in the shape a step wants, made while the model computes."""

    def works(self, position: Position) -> Iterator[Work]:
        """Work after work; an epoch without batches is refused."""
        while True:
            batches = self.data.order.epoch(position.epoch)
            if not batches:
                raise ValueError(f"epoch {position.epoch} has no batches: the training data are empty.")
            for index in range(position.index, len(batches)):
                last = index + 1 == len(batches)
                following = Position(position.epoch + 1, 0) if last else Position(position.epoch, index + 1)
                yield Work(
                    parts=self._parts(batches[index]),
                    num_tokens=max(self.data.num_tokens(batches[index]), 1),
                    epoch=position.epoch,
                    ends_epoch=last,
                    following=following,
                )
            position = Position(position.epoch + 1, 0)

    def _parts(self, indices: Sequence[int]) -> tuple[tuple[Any, bool], ...]:
        """This process's parts, and whether each counts: one without rows computes a row in vain to keep step."""
        parts = []
        for part in range(self.accumulation):
            own = self.data.share(
                indices, part * self.num_processes + self.rank, self.num_processes * self.accumulation
            )
            batch = self.data.make(own if own else indices[:1])
            batch = batch if self.reshape is None else self.reshape(batch)
            parts.append((map_tensors(torch.Tensor.pin_memory, batch) if self.pin else batch, bool(own)))
        return tuple(parts)


class Prefetcher:
    """An iterator run by a thread a few items ahead; in the same order, and its errors are raised here."""

    def __init__(self, items: Iterator[Any], count: int) -> None:
        self._queue: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=count)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(items,), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        """The items."""
        while True:
            item, error = self._queue.get()
            if error is not None:
                raise error
            yield item

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue

    def _run(self, items: Iterator[Any]) -> None:
        try:
            for item in items:
                self._queue.put((item, None))
                if self._closed.is_set():
                    return
        except BaseException as error:
            self._queue.put((None, error))
