"""Predictor: a trained model from users' inputs (text, files) to outputs.

After `regard.load` the command line, the studio, `display` and the evaluation use this protocol alone, and none depends
on the task.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from regard.contracts.inspection import Inspection, Response, Title
from regard.contracts.report import Report

# a factory: a context manager made by `contextmanager` can be entered only once
Around = Callable[[], AbstractContextManager[None]]
"""A function that creates the context, such as an intervention, in which a model is run."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What the predictors of a task can do beside predict, score and inspect; known before a model is loaded.

    takes_output: `inspect` accepts an output to force.
    streams: the predictor is a `StreamingPredictor`.
    multiline: the ends of lines in a text input matter.
    responds: there is an output that an intervention may change, so `respond` can be called.
    """

    takes_output: bool = False
    streams: bool = False
    multiline: bool = False
    responds: bool = True


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a system reads and what it writes, as phrases: `English dates from 1900 to 2099`, `the dates in Chinese`.

    The codes of the languages, such as en, are '' where they are unknown or where there is no language.
    """

    reads: Title
    writes: Title
    source_language: str = ""
    target_language: str = ""


@runtime_checkable
class Predictor(Protocol):
    """A model with its tokenizers or features."""

    @property
    def model(self) -> Any:
        """The model that predicts."""
        ...

    @property
    def run(self) -> Any:
        """The run that trained it."""
        ...

    @property
    def device(self) -> torch.device:
        """Device of the model's parameters."""
        ...

    @property
    def description(self) -> Description:
        """What the predictor reads and writes, from the data that it was trained on."""
        ...

    def parse(self, data: str | bytes) -> Any:
        """An input from text or from the bytes of a file; invalid inputs raise ValueError."""
        ...

    def predict(self, inputs: Sequence[Any], *args: Any, **options: Any) -> list[Any]:
        """An output for each input: a translation, a continuation, a class. `str(output)` is its text.

        Every predictor takes `return_weights`; other options are the task's own, such as the beam of a search.
        """
        ...

    def score(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[float]:
        """log p(output | input) of each pair, in nats."""
        ...

    def inspect(self, data: Any, output: str | None = None, *, max_numbers: int | None = None) -> Inspection:
        """Every attention of one prediction, or of an output that is given.

        More than `max_numbers` of scores, weights, keys and values are refused before they take memory.
        """
        ...

    def respond(self, inspection: Inspection, around: Around) -> Response:
        """The output computed again inside `around()`, and the log-probability of the inspection's output there."""
        ...

    def evaluate(self, examples: Any, *args: Any, **options: Any) -> Report:
        """Metrics and tables over examples that `Task.read_examples` gave.

        Every predictor takes `split`, the name of the examples, and `steps`, how long the model was trained; other
        options are those of `Task.evaluate_options`.
        """
        ...

    def samples(self) -> list[str]:
        """Example inputs for the model; empty if there are none."""
        ...

    def unknown_in(self, text: str, *, is_output: bool = False) -> list[str]:
        """The parts of an input, or of an output, that are outside the vocabulary, each once, in order.

        Empty where there is no vocabulary.
        """
        ...


@runtime_checkable
class StreamingPredictor(Protocol):
    """A predictor that returns its outputs in pieces."""

    def stream(self, inputs: Sequence[Any], **options: Any) -> Iterator[Any]:
        """Pieces (`number`, `text`, `token`, `log_prob`, `ended`) as they are generated."""
        ...
