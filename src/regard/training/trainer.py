"""The training loop: one for every model.

Ctrl-C and a polite kill as a wish, asked for between steps; a second one stops at once.

How a training ends: with a result, by an interruption, or because it diverged.

The training loop: one for every model.

    learn a global batch -> now and then: measure, validate, save -> at the end choose the weights

A run that is killed at any moment and resumed gives, on the CPU, bit for bit the weights of one that was not: the
optimizer, the place in the data, the random generators and the standing of the best are saved together.
"""

import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console
from torch import nn

from regard._utils import append_line
from regard.checkpoint import Point, fit_weights, load_weights, save_tensors
from regard.training.checkpoint_manager import CheckpointManager, Progress, Tensors, finite_or_none
from regard.training.engine import Engine
from regard.training.loader import Feed, Prefetcher, TrainingData, Work
from regard.training.objectives import Objective
from regard.training.progress import Display
from regard.training.schedules import Clock, complete_schedule, find_schedule, is_due, too_short, total_steps
from regard.training.selection import all_finite, is_better, metric_of
from regard.training.settings import TrainingSettings


class Interrupts:
    """While open, SIGINT and SIGTERM are remembered; outside the main thread signals are left alone."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        """Listen."""
        if threading.current_thread() is threading.main_thread():
            self._before = {kind: signal.signal(kind, self._remember) for kind in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        """Give the signals back."""
        for kind, handler in self._before.items():
            signal.signal(kind, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a training.

    `stopped` says why it ended: "steps", "epochs" or "patience". `chosen` says which weights model.safetensors holds:
    "best" by the metric, "average" of the last validated ones, or "last" where nothing was validated. `metrics` are
    their validation metrics.
    """

    folder: Path
    steps: int
    epochs: int
    tokens: int
    seconds: float
    stopped: str
    chosen: str
    chosen_step: int
    metrics: dict[str, float] = field(default_factory=dict)


class Interrupted(Exception):  # noqa: N818
    """Training was asked to stop, finished its step and saved."""

    def __init__(self, folder: Path, step: int) -> None:
        super().__init__(
            f"Training stopped after step {step} and is saved in {folder}. "
            f"Give the same command with --resume (resume=True) to go on."
        )
        self.folder = folder
        self.step = step


class Diverged(ValueError):  # noqa: N818
    """The loss or the weights are no longer numbers."""

    def __init__(self, what: str, step: int, learning_rate: float) -> None:
        super().__init__(
            f"{what} at step {step}. What was saved before is kept. Begin again with a learning rate below "
            f"{learning_rate:.3g}, a longer warm-up, clip_norm=1.0 or precision fp32."
        )
        self.step = step


Validate = Callable[[Any], Mapping[str, float]]
Listener = Callable[[dict[str, Any]], None]


def train(
    model: nn.Module,
    data: TrainingData,
    settings: TrainingSettings,
    folder: Path,
    *,
    validate: Validate | None = None,
    objective: Callable[..., nn.Module] = Objective,
    resume: bool = False,
    unit: str = "tokens",
    capturable: bool = False,
    console: Console | None = None,
    listeners: Sequence[Listener] = (),
) -> Result:
    """Train a model into a folder; at the end the model holds the weights of its model.safetensors.

    `objective(model, label_smoothing=..)` is a module from a batch of the data to the summed loss of its labels.
    `validate` is called with the model in evaluation mode, on the main process. `listeners` are given each line of
    metrics.jsonl. `unit` is what the data have labels for. `capturable` declares that a step on batches of one shape
    always runs the same kernels and never waits for the device, so that it can be replayed as a CUDA graph. With
    `resume`, a training in the folder goes on, and one that never saved begins again.
    """
    if validate is None and settings.selection.patience is not None:
        raise ValueError("patience needs a validation to wait for. Give validate, or leave patience out.")
    archive = CheckpointManager(folder, settings)
    point = archive.find(resume=resume)
    if point is not None:
        archive.load_model(point, model)
    engine = Engine(model, settings, objective, capturable=capturable)
    engine.wait()
    if engine.is_main:
        folder.mkdir(parents=True, exist_ok=True)
        archive.clean(point, validates=validate is not None)
    trainer = Trainer(engine, data, archive, validate)
    trainer.start(point)
    shown = (console or Console(stderr=True)) if engine.is_main else Console(quiet=True)
    if warning := too_short(settings, trainer.total):
        shown.print(f"Warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if point is not None:
        shown.print(f"Going on from step {point.step:,}.", markup=False, highlight=False)
    display = Display(shown, total=trainer.total, step=trainer.progress.step, unit=unit)
    try:
        return trainer.run(display, listeners)
    finally:
        display.close()


class Trainer:
    """One run: what it knows of itself is in `progress`, the rest is in the engine."""

    def __init__(
        self, engine: Engine, data: TrainingData, archive: CheckpointManager, validate: Validate | None
    ) -> None:
        self.engine, self.data, self.archive, self.validate = engine, data, archive, validate
        self.settings = archive.settings
        self.progress = Progress()
        self.total = total_steps(self.settings, data)
        self.schedule = complete_schedule(self.settings.schedule, self.total)
        self.factor = find_schedule(self.schedule.name)
        self.factor(1, self.schedule)
        self.running = engine.running_average(self.settings.selection.ema)
        self._loss = torch.zeros((), device=engine.device)
        self._loss_tokens = 0
        self._clock = Clock()

    @property
    def learning_rate(self) -> float:
        """The rate of the current step."""
        return self.settings.optimizer.learning_rate * self.factor(max(self.progress.step, 1), self.schedule)

    def start(self, point: Point | None) -> None:
        """Begin, or go on exactly where the point was saved; the model has its weights already."""
        if point is None:
            self.engine.seed(self.settings.seed)
            return
        self.progress = self.archive.load_progress(point)
        self.engine.restore(self.archive.load_engine(point))
        if self.running is not None:
            self.archive.load_running(point, self.running.module)
            self.running.n_averaged.fill_(point.step)

    def run(self, display: Display, listeners: Sequence[Listener]) -> Result:
        """Learn until the end, and choose the weights."""
        feed = Feed(
            data=self.data,
            rank=self.engine.rank,
            num_processes=self.engine.num_processes,
            accumulation=self.settings.compute.accumulation,
            pin=self.engine.device.type == "cuda",
            reshape=self.engine.reshape,
        )
        works = Prefetcher(feed.works(self.progress.position), self.settings.compute.ahead)
        self._clock = Clock(self.progress.seconds)
        self.engine.objective.train()
        try:
            with Interrupts() as interrupts:
                self._learn(iter(works), interrupts, display, listeners)
        finally:
            works.close()
        return self._finish(display)

    def _learn(
        self, works: Iterator[Work], interrupts: Interrupts, display: Display, listeners: Sequence[Listener]
    ) -> None:
        choice = None
        while self._why_stop() is None:
            if choice is not self.engine.choice and self.settings.compute.step == "auto":
                choice = self.engine.choice
                display.say(str(choice))
            work = next(works)
            self._step(work)
            display.advance(self.progress.step)
            validating, saving, logging = self._due(work)
            several = self.engine.num_processes > 1
            # several processes can only agree to stop where they meet
            asked = self.engine.any(interrupts.asked) if several and logging else interrupts.asked and not several
            if not (logging or asked):
                continue
            record = self._measure(work)
            if validating:
                record["validation"] = finite_or_none(self._validated())
            if self.engine.is_main:
                append_line(self.archive.checkpoint.metrics, record)
                display.show(record)
                for listener in listeners:
                    listener(record)
            if saving or asked:
                self._save(validating)
            self._clock.mark()
            if asked and self._why_stop() is None:
                stopped = Interrupted(self.archive.folder, self.progress.step)
                display.say(str(stopped))
                raise stopped

    def _step(self, work: Work) -> None:
        self.progress = replace(
            self.progress,
            step=self.progress.step + 1,
            position=work.following,
            tokens=self.progress.tokens + work.num_tokens,
        )
        self._loss += self.engine.learn(work.parts, num_tokens=work.num_tokens, learning_rate=self.learning_rate)
        self._loss_tokens += work.num_tokens
        if self.running is not None:
            self.running.update_parameters(self.engine.model)

    def _why_stop(self) -> str | None:
        settings, progress = self.settings, self.progress
        if settings.steps is not None and progress.step >= settings.steps:
            return "steps"
        if settings.epochs is not None and progress.position.epoch >= settings.epochs:
            return "epochs"
        return "patience" if progress.standing.exhausted(settings.selection) else None

    def _due(self, work: Work) -> tuple[bool, bool, bool]:
        """Whether to validate, to save and to log after this step; each includes the next."""
        every, step, ending = self.settings.every, self.progress.step, self._why_stop() is not None
        validating = self.validate is not None and (ending or is_due(every.validate, step, work))
        saving = validating or ending or is_due(every.save, step, work)
        return validating, saving, saving or step % every.log == 0

    def _measure(self, work: Work) -> dict[str, Any]:
        """The mean loss and the speed since the last time: here, and only here, the host waits for the device."""
        step, tokens = self.progress.step, self._loss_tokens
        loss = self.engine.sum(self._loss) / tokens
        self._loss, self._loss_tokens = torch.zeros_like(self._loss), 0
        self.progress = replace(self.progress, seconds=self._clock.seconds)
        if not math.isfinite(loss):
            raise Diverged(f"the loss is {loss}", step, self.settings.optimizer.learning_rate)
        return {
            "step": step,
            "epoch": work.epoch,
            "loss": loss,
            "learning_rate": self.learning_rate,
            "tokens_per_second": tokens / max(self._clock.since_mark, 1e-9),
            "seconds": self.progress.seconds,
        }

    def _validated(self) -> dict[str, float]:
        """Validate the weights that would be kept, and judge them."""
        module = self.running.module if self.running is not None else self.engine.whole
        if self.engine.sharded:
            weights = self.engine.weights()
            if self.engine.is_main:
                fit_weights(self.engine.whole, weights, origin="the training")
        metrics = self._call_validate(module)
        selection, standing = self.settings.selection, self.progress.standing
        if self.engine.is_main:
            standing = standing.after(self.progress.step, metrics, selection)
        # all processes must agree on whether patience is at its end
        if self.engine.any(self.engine.is_main and standing.exhausted(selection)) and not self.engine.is_main:
            standing = replace(standing, since=selection.patience or 0)
        self.progress = replace(self.progress, standing=standing)
        return metrics

    def _call_validate(self, module: nn.Module) -> dict[str, float]:
        if not self.engine.is_main or self.validate is None:
            return {}
        module.eval()
        with torch.no_grad(), self.engine.forked():
            metrics = {name: float(value) for name, value in self.validate(module).items()}
        module.train()
        metric_of(metrics, self.settings.selection)
        return metrics

    def _save(self, validated: bool) -> None:
        progress, last = self.progress, self.settings.selection.average_last
        weights, state = self.engine.weights(), self.engine.state()
        running = None if self.running is None else self.running.module.state_dict()
        if self.engine.is_main:
            if not all_finite(weights):
                rate = self.settings.optimizer.learning_rate
                raise Diverged("some weights are not finite", progress.step, rate)
            if last > 1 and (validated or self.validate is None):
                self.archive.keep(progress.step, running or weights)
                self.progress = progress = replace(progress, kept=(*progress.kept, progress.step)[-last:])
            point = self.archive.save(progress, Tensors(weights=weights, running=running, engine=state))
            if self.validate is None or progress.standing.step == progress.step:
                self.archive.publish(point)
        self.engine.wait()

    def _finish(self, display: Display) -> Result:
        progress, stopped = self.progress, self._why_stop() or "steps"
        standing = progress.standing
        chosen, step, metrics = (
            ("best", standing.step, standing.metrics) if standing.metrics else ("last", progress.step, {})
        )
        if self.engine.is_main:
            whole = self.engine.whole
            if len(progress.kept) > 1:
                average = self.archive.average(progress.kept)
                fit_weights(whole, average, origin="the average")
                found = self._call_validate(whole)
                if self.validate is None or is_better(found, standing.metrics, self.settings.selection):
                    save_tensors(self.archive.checkpoint.weights, average, facts={"average": list(progress.kept)})
                    chosen, step, metrics = "average", progress.step, found
            load_weights(self.archive.checkpoint.weights, whole)
            display.say(f"model.safetensors holds the {chosen} weights (step {step}). The training ended by {stopped}.")
        self.engine.wait()
        return Result(
            folder=self.archive.folder,
            steps=progress.step,
            epochs=progress.position.epoch,
            tokens=progress.tokens,
            seconds=progress.seconds,
            stopped=stopped,
            chosen=chosen,
            chosen_step=step,
            metrics=metrics,
        )
