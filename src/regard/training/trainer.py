"""The training loop: one for every model.

    train on a global batch -> at intervals: log, validate, save -> at the end select the weights

A run that is killed at any moment and resumed gives, on the CPU, bit for bit the weights of an uninterrupted one: the
optimizer, the position in the data, the random generators and the best validation are saved together.
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
from regard.checkpoint import Checkpoint, fit_weights, load_weights, save_tensors
from regard.training.checkpoint_manager import CheckpointManager, CheckpointTensors, Progress, finite_or_none
from regard.training.engine import Engine
from regard.training.loader import BatchLoader, Prefetcher, StepBatches, TrainingData
from regard.training.objectives import Objective
from regard.training.progress import ProgressDisplay
from regard.training.schedules import Clock, complete_schedule, find_schedule, is_due, total_steps, warm_up_warning
from regard.training.selection import all_finite, is_better, metric_of
from regard.training.settings import TrainingSettings

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals after which training saves and stops: Ctrl-C, kill, and a closed terminal (there is none on Windows)."""


class InterruptHandler:
    """Defers SIGNALS to the end of the current step; a second signal raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self.requested = False
        self._old_handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "InterruptHandler":
        """Install the handlers."""
        # Python allows signal handlers in the main thread only
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # nohup ignores SIGHUP, so that a training outlives its terminal; SIGINT always saves: a shell
                # ignores it for every job in the background
                if number in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(number) is not signal.SIG_IGN:
                    self._old_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # the step may hang, so a second signal does not wait for its end
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a training.

    `stopped` is the reason for its end: "steps", "epochs" or "patience". `chosen` says which weights model.safetensors
    holds: "best" by the metric, "average" of the last validated ones, or "last" without validation. `metrics` are their
    validation metrics.
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
    """Training received a signal, finished its step and saved a checkpoint."""

    def __init__(self, folder: Path, step: int) -> None:
        super().__init__(
            f"Training stopped after step {step} and is saved in {folder}. "
            f"Give the same command with --resume (resume=True) to continue."
        )
        self.folder = folder
        self.step = step


class Diverged(ValueError):  # noqa: N818
    """The loss or the weights are not finite."""

    def __init__(self, what: str, step: int, learning_rate: float) -> None:
        super().__init__(
            f"{what} at step {step}. Earlier checkpoints are unchanged. Train again with a learning rate below "
            f"{learning_rate:.3g}, a longer warm-up, clip_norm=1.0 or precision fp32."
        )
        self.step = step


Validate = Callable[[Any], Mapping[str, float]]
Callback = Callable[[dict[str, Any]], None]


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
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Train a model into a folder; at the end the model holds the weights of its model.safetensors.

    `objective(model, label_smoothing=..)` is a module from a batch of the data to the summed loss of its labels; one
    that is not derived from `ModelObjective` applies `settings.compute.fused` itself.
    `validate` is called with the model in evaluation mode, on the main process. Each of `callbacks` is called with
    every record of metrics.jsonl. `unit` names what the data have labels for. `capturable` declares that a step on
    batches of one shape always runs the same kernels without a device synchronisation, so that it can be replayed as a
    CUDA graph. With `resume`, training continues from the latest checkpoint in the folder, or starts if there is none.
    """
    if validate is None and settings.selection.patience is not None:
        raise ValueError("patience needs a validation. Give validate, or leave patience out.")
    manager = CheckpointManager(folder, settings)
    checkpoint = manager.find(resume=resume)
    # before the engine, which copies or shards the weights
    if checkpoint is not None:
        manager.load_model(checkpoint, model)
    engine = Engine(model, settings, objective, capturable=capturable)
    # every process has found the checkpoint before the main process cleans the folder
    engine.wait()
    if engine.is_main:
        folder.mkdir(parents=True, exist_ok=True)
        manager.clean(checkpoint, validates=validate is not None)
    trainer = Trainer(engine, data, manager, validate)
    trainer.start(checkpoint)
    console = (console or Console(stderr=True)) if engine.is_main else Console(quiet=True)
    if warning := warm_up_warning(settings, trainer.total):
        console.print(f"Warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if checkpoint is not None:
        console.print(f"Resuming from step {checkpoint.step:,}.", markup=False, highlight=False)
    display = ProgressDisplay(console, total=trainer.total, step=trainer.progress.step, unit=unit)
    try:
        return trainer.run(display, callbacks)
    finally:
        display.close()


class Trainer:
    """One training run: `progress` is its state without tensors, the engine has the rest."""

    def __init__(
        self, engine: Engine, data: TrainingData, manager: CheckpointManager, validate: Validate | None
    ) -> None:
        self.engine, self.data, self.manager, self.validate = engine, data, manager, validate
        self.settings = manager.settings
        self.progress = Progress()
        self.total = total_steps(self.settings, data)
        self.schedule = complete_schedule(self.settings.schedule, self.total)
        self.factor = find_schedule(self.schedule.name)
        # a schedule with a missing setting raises here, before the first step
        self.factor(1, self.schedule)
        self.average = engine.running_average(self.settings.selection.ema)
        self._loss = torch.zeros((), device=engine.device)
        self._loss_tokens = 0
        self._clock = Clock()

    @property
    def learning_rate(self) -> float:
        """The learning rate of the current step."""
        return self.settings.optimizer.learning_rate * self.factor(max(self.progress.step, 1), self.schedule)

    def start(self, checkpoint: Checkpoint | None) -> None:
        """Seed a new training, or restore the state of a checkpoint; the model has its weights already."""
        if checkpoint is None:
            self.engine.seed(self.settings.seed)
            return
        self.progress = self.manager.load_progress(checkpoint)
        state = self.manager.load_engine(checkpoint)
        try:
            self.engine.restore(state)
        # each library has errors of its own for a state that it did not write
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{checkpoint.folder} holds a state that does not fit this training: {error!r}. Restore it from a copy."
            ) from error
        if self.average is not None:
            self.manager.load_average(checkpoint, self.average.module)
            # updated once per step, so the step is the number of updates
            self.average.n_averaged.fill_(checkpoint.step)

    def run(self, display: ProgressDisplay, callbacks: Sequence[Callback]) -> Result:
        """Train until the end, and select the weights."""
        loader = BatchLoader(
            data=self.data,
            rank=self.engine.rank,
            num_processes=self.engine.num_processes,
            accumulation=self.settings.compute.accumulation,
            pin=self.engine.device.type == "cuda",
            reshape=self.engine.reshape,
        )
        prefetcher = Prefetcher(loader.steps(self.progress.position), self.settings.compute.prefetch)
        self._clock = Clock(self.progress.seconds)
        self.engine.objective.train()
        try:
            with InterruptHandler() as interrupt:
                self._train(iter(prefetcher), interrupt, display, callbacks)
        finally:
            # also after an error: the thread holds prepared batches in memory
            prefetcher.close()
        return self._finish(display)

    def _train(
        self,
        steps: Iterator[StepBatches],
        interrupt: InterruptHandler,
        display: ProgressDisplay,
        callbacks: Sequence[Callback],
    ) -> None:
        choice = None
        while self._stop_reason() is None:
            # the engine falls back to eager steps if a capture is not possible, which is a new choice
            if choice is not self.engine.choice and self.settings.compute.step == "auto":
                choice = self.engine.choice
                display.print(str(choice))
            batches = next(steps)
            self._step(batches)
            display.advance(self.progress.step)
            validating, saving, logging = self._due(batches)
            several = self.engine.num_processes > 1
            # several processes can agree to stop only where all of them communicate, which is at logging steps
            stopping = (logging and self.engine.any(interrupt.requested)) if several else interrupt.requested
            if not (logging or stopping):
                continue
            record = self._measure(batches)
            if validating:
                record["validation"] = finite_or_none(self._validate())
            if self.engine.is_main:
                append_line(self.manager.run_folder.metrics, record)
                display.show(record)
                for callback in callbacks:
                    callback(record)
            if saving or stopping:
                self._save(validating)
            # the speed of the next record excludes validation and saving
            self._clock.mark()
            # a run that ends with this step is complete, and not interrupted
            if stopping and self._stop_reason() is None:
                # its caller prints how to continue: not every command has the option of the message
                raise Interrupted(self.manager.folder, self.progress.step)

    def _step(self, batches: StepBatches) -> None:
        # before the step: the learning rate is that of the step to come
        self.progress = replace(
            self.progress,
            step=self.progress.step + 1,
            position=batches.next_position,
            tokens=self.progress.tokens + batches.num_tokens,
        )
        # the loss is summed on the device: reading it at every step would make the host wait
        self._loss += self.engine.train_step(
            batches.parts, num_tokens=batches.num_tokens, learning_rate=self.learning_rate
        )
        self._loss_tokens += batches.num_tokens
        if self.average is not None:
            self.average.update_parameters(self.engine.model)

    def _stop_reason(self) -> str | None:
        settings, progress = self.settings, self.progress
        if settings.steps is not None and progress.step >= settings.steps:
            return "steps"
        if settings.epochs is not None and progress.position.epoch >= settings.epochs:
            return "epochs"
        return "patience" if progress.best.exhausted(settings.selection) else None

    def _due(self, batches: StepBatches) -> tuple[bool, bool, bool]:
        """Whether to validate, to save and to log after this step; each includes the next."""
        every, step, ending = self.settings.every, self.progress.step, self._stop_reason() is not None
        # the last step is validated and saved whatever the intervals are
        validating = self.validate is not None and (ending or is_due(every.validate, step, batches))
        saving = validating or ending or is_due(every.save, step, batches)
        return validating, saving, saving or step % every.log == 0

    def _measure(self, batches: StepBatches) -> dict[str, Any]:
        """The mean loss and the speed since the last record; the only place where the host waits for the device."""
        step, tokens = self.progress.step, self._loss_tokens
        loss = self.engine.sum(self._loss) / tokens
        self._loss, self._loss_tokens = torch.zeros_like(self._loss), 0
        self.progress = replace(self.progress, seconds=self._clock.seconds)
        if not math.isfinite(loss):
            raise Diverged(f"the loss is {loss}", step, self.settings.optimizer.learning_rate)
        return {
            "step": step,
            "epoch": batches.epoch,
            "loss": loss,
            "learning_rate": self.learning_rate,
            # clocks may give the same time twice
            "tokens_per_second": tokens / max(self._clock.since_mark, 1e-9),
            "seconds": self.progress.seconds,
        }

    def _validate(self) -> dict[str, float]:
        """Validate the weights that would be saved, and update the best."""
        module = self.average.module if self.average is not None else self.engine.full_model
        if self.engine.sharded:
            # a collective operation: every process has to call it
            weights = self.engine.weights()
            if self.engine.is_main:
                fit_weights(self.engine.full_model, weights, origin="the training")
        metrics = self._call_validate(module)
        selection, best = self.settings.selection, self.progress.best
        if self.engine.is_main:
            best = best.after(self.progress.step, metrics, selection)
        # only the main process has metrics, but all processes must stop at the same step
        if self.engine.any(self.engine.is_main and best.exhausted(selection)) and not self.engine.is_main:
            best = replace(best, since=selection.patience or 0)
        self.progress = replace(self.progress, best=best)
        return metrics

    def _call_validate(self, module: nn.Module) -> dict[str, float]:
        if not self.engine.is_main or self.validate is None:
            return {}
        module.eval()
        # a validation that draws random numbers must not change those of training
        with torch.no_grad(), self.engine.forked_rng():
            metrics = {name: float(value) for name, value in self.validate(module).items()}
        module.train()
        # a missing selection metric is an error at the first validation
        metric_of(metrics, self.settings.selection)
        return metrics

    def _save(self, validating: bool) -> None:
        progress, last = self.progress, self.settings.selection.average_last
        # gathered by all processes, written by the main process
        weights, state = self.engine.weights(), self.engine.state()
        average = None if self.average is None else self.average.module.state_dict()
        if self.engine.is_main:
            if not all_finite(weights):
                rate = self.settings.optimizer.learning_rate
                raise Diverged("some weights are not finite", progress.step, rate)
            # an average of one set of weights is that set
            if last > 1 and (validating or self.validate is None):
                self.manager.save_validated(progress.step, average or weights)
                # the files of older steps are removed with the next checkpoint
                steps = (*progress.averaged_steps, progress.step)[-last:]
                self.progress = progress = replace(progress, averaged_steps=steps)
            tensors = CheckpointTensors(weights=weights, average=average, engine=state)
            checkpoint = self.manager.save(progress, tensors)
            # after the checkpoint, which must exist before it is published
            if self.validate is None or progress.best.step == progress.step:
                self.manager.publish(checkpoint)
        # no process may end or continue before the files are complete
        self.engine.wait()

    def _finish(self, display: ProgressDisplay) -> Result:
        progress, stopped = self.progress, self._stop_reason() or "steps"
        best = progress.best
        chosen, step, metrics = ("best", best.step, best.metrics) if best.metrics else ("last", progress.step, {})
        if self.engine.is_main:
            model, weights_path = self.engine.full_model, self.manager.run_folder.weights
            if len(progress.averaged_steps) > 1:
                average = self.manager.average(progress.averaged_steps)
                fit_weights(model, average, origin="the average")
                average_metrics = self._call_validate(model)
                if self.validate is None or is_better(average_metrics, best.metrics, self.settings.selection):
                    save_tensors(weights_path, average, metadata={"average": list(progress.averaged_steps)})
                    chosen, step, metrics = "average", progress.step, average_metrics
            # published weights, which are not always those of the last step
            load_weights(weights_path, model)
            display.print(
                f"model.safetensors holds the {chosen} weights (step {step}). The training ended by {stopped}."
            )
        self.engine.wait()
        return Result(
            folder=self.manager.folder,
            steps=progress.step,
            epochs=progress.position.epoch,
            tokens=progress.tokens,
            seconds=progress.seconds,
            stopped=stopped,
            chosen=chosen,
            chosen_step=step,
            metrics=metrics,
        )
