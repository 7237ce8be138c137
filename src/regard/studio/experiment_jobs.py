"""Experiments started from the page: one at a time in a background thread; their results are stored in memory.

A run is identified by the name of the experiment and its settings, so that runs with several settings can be compared.
"""

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock

from regard._utils import make_folder, nearest, write_atomic
from regard.contracts import CancelledError, cancellable, check_cancelled
from regard.display import drawn_bytes, has_matplotlib
from regard.experiments import EXPERIMENTS
from regard.experiments.lib import OUTCOMES, Finding, chinese_labels, format_cell, label
from regard.serving import BusyError, MissingError, refusing
from regard.studio.experiment_settings import arguments_of, complete_settings, controls_of
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.experiments import (
    ExperimentOutcome,
    ExperimentReport,
    ExperimentResult,
    ExperimentRunCard,
    ExperimentVerdict,
    RunState,
)

MAX_WAITING = 8
"""Runs that wait or compute at a time."""
MAX_ENDED = 64
"""Results in memory, of all experiments together; a figure has up to a few hundred kilobytes."""
DURATIONS = "experiment-seconds.json"
"""The file in the user's data folder with the seconds of each experiment's last run with the default settings."""
OUTCOME_NAMES: dict[bool | None, ExperimentOutcome] = {True: "holds", False: "fails", None: "undecided"}

Key = tuple[str, tuple[tuple[str, float], ...]]


@dataclass(eq=False)
class ExperimentRun:
    """A run: it waits, computes, and has ended with a result, with a problem, or cancelled."""

    name: str
    settings: dict[str, float]
    cancel: Event = field(default_factory=Event)
    started_at: float | None = None
    ended_at: float | None = None
    result: ExperimentResult | None = None
    problem: str | None = None

    @property
    def key(self) -> Key:
        """The identity of the run."""
        return self.name, tuple(self.settings.items())

    @property
    def is_default(self) -> bool:
        """True if every setting has its default."""
        return self.settings == complete_settings(EXPERIMENTS[self.name], {})

    @property
    def state(self) -> RunState:
        """What the page shows; never idle, because the run was started."""
        if self.ended_at is not None:
            return "failed" if self.problem is not None else "done"
        if self.started_at is None:
            return "waiting"
        return "stopping" if self.cancel.is_set() else "running"

    @property
    def seconds(self) -> float | None:
        """The time that it has taken so far; None while it waits."""
        if self.started_at is None:
            return None
        return (time.monotonic() if self.ended_at is None else self.ended_at) - self.started_at

    def card(self) -> ExperimentRunCard:
        """The run in the list of runs."""
        outcome = None if self.result is None else self.result.verdict.outcome
        return ExperimentRunCard(settings=self.settings, state=self.state, outcome=outcome, seconds=self.seconds)


class ExperimentJobs:
    """The runs of all experiments. With a folder, durations are stored there for the next start of the studio."""

    def __init__(self, folder: Path | None = None) -> None:
        # one worker, so that experiments do not compete for the cores
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="experiment")
        self._runs: dict[Key, ExperimentRun] = {}
        self._lock = Lock()
        self._durations_file = None if folder is None else folder / DURATIONS
        self._durations = read_durations(self._durations_file)

    def start(self, name: str, settings: Mapping[str, float]) -> ExperimentReport:
        """Run an experiment with these settings, unless that run waits or computes already."""
        run = new_run(name, settings)
        # one lock for check and start, so that two requests do not start the same run
        with self._lock:
            earlier = self._runs.get(run.key)
            if earlier is None or earlier.ended_at is not None:
                active = sum(other.ended_at is None for other in self._runs.values())
                if active >= MAX_WAITING:
                    raise BusyError(f"{active} experiments already wait or run. Cancel one, or try again later.")
                # removed first, so that the newest run is the last one
                self._runs.pop(run.key, None)
                self._runs[run.key] = run
                self._threads.submit(self._execute, run)
        return self.report(name, settings)

    def cancel(self, name: str, settings: Mapping[str, float]) -> ExperimentReport:
        """Cancel a run: at once while it waits, else between two of its steps."""
        key = new_run(name, settings).key
        with self._lock:
            run = self._runs.get(key)
            if run is None or run.ended_at is not None:
                raise MissingError(f"no run of {name!r} with these settings waits or computes. Start it first.")
            run.cancel.set()
            if run.started_at is None:
                del self._runs[key]
        return self.report(name, settings)

    def report(self, name: str, settings: Mapping[str, float]) -> ExperimentReport:
        """The experiment with the run of these settings, and all its runs."""
        identity = new_run(name, settings)
        entry = EXPERIMENTS[name]
        with self._lock:
            run = self._runs.get(identity.key)
            runs = [other.card() for other in self._runs.values() if other.name == name]
        return ExperimentReport(
            name=name,
            number=entry.number,
            claim=LocalizedText.of(entry.claim),
            paper=entry.paper,
            controls=list(controls_of(entry)),
            settings=identity.settings,
            state="idle" if run is None else run.state,
            seconds=None if run is None else run.seconds,
            default_seconds=self._durations.get(name),
            result=None if run is None else run.result,
            problem=None if run is None else run.problem,
            runs=runs,
        )

    def close(self) -> None:
        """Accept no more runs, and cancel those that wait or compute."""
        with self._lock:
            for run in self._runs.values():
                run.cancel.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _execute(self, run: ExperimentRun) -> None:
        """In the worker thread: compute a run and store its end."""
        run.started_at = time.monotonic()
        result, problem = None, None
        try:
            with cancellable(run.cancel.is_set):
                check_cancelled()
                result = compute(run)
        except CancelledError:
            pass
        # shown on the page, where the reader can change the settings; the thread continues with the next run
        except Exception as error:
            problem = str(error) or type(error).__name__
        with self._lock:
            if run.cancel.is_set():
                # a run that was cancelled while it waited is no longer in the table, but another one may be
                if self._runs.get(run.key) is run:
                    del self._runs[run.key]
                return
            # the end last: a report must not find a run that has ended without its result
            run.result, run.problem = result, problem
            run.ended_at = time.monotonic()
            ended = [other for other in self._runs.values() if other.ended_at is not None]
            for other in ended[:-MAX_ENDED]:
                del self._runs[other.key]
        if problem is None and run.is_default:
            self._store_duration(run)

    def _store_duration(self, run: ExperimentRun) -> None:
        assert run.seconds is not None
        self._durations = {**self._durations, run.name: round(run.seconds, 1)}
        if self._durations_file is None:
            return
        # durations are a help only: a read-only home folder must not make a run fail
        with suppress(OSError, ValueError):
            make_folder(self._durations_file.parent)
            write_atomic(self._durations_file, json.dumps(self._durations).encode(), overwrite=True)


def new_run(name: str, settings: Mapping[str, float]) -> ExperimentRun:
    """A run with a value for every setting; MissingError or RefusedError if there is none like it."""
    if name not in EXPERIMENTS:
        raise MissingError(f"there is no experiment called {name!r}; the nearest is {nearest(name, EXPERIMENTS)!r}.")
    with refusing():
        return ExperimentRun(name, complete_settings(EXPERIMENTS[name], settings))


def compute(run: ExperimentRun) -> ExperimentResult:
    """The result of a run, with its figure if matplotlib is installed."""
    entry = EXPERIMENTS[run.name]
    finding = entry.run(**arguments_of(entry, run.settings))
    return ExperimentResult(
        columns=[label_in_both(run.name, column) for column in finding.columns],
        rows=[[label_in_both(run.name, format_cell(cell)) for cell in row.values()] for row in finding.rows],
        verdict=ExperimentVerdict(
            outcome=OUTCOME_NAMES[finding.holds],
            sentence=LocalizedText.of(OUTCOMES[finding.holds]),
            text=LocalizedText.of(finding.verdict),
        ),
        figure=draw(run.name, finding),
    )


def draw(name: str, finding: Finding) -> LocalizedText | None:
    """The figure in both languages, or None without matplotlib."""
    if not has_matplotlib():
        return None
    # SVG is text, which fits into JSON
    english = drawn_bytes(finding.draw, ("svg",))["svg"].decode()
    with chinese_labels(EXPERIMENTS[name].chinese):
        chinese = drawn_bytes(finding.draw, ("svg",), letters=finding.claim.zh)["svg"].decode()
    return LocalizedText(en=english, zh=chinese)


def label_in_both(name: str, text: str) -> LocalizedText:
    """A column or a cell of an experiment in both languages; numbers are the same."""
    with chinese_labels(EXPERIMENTS[name].chinese):
        return LocalizedText(en=text, zh=label(text))


def read_durations(path: Path | None) -> dict[str, float]:
    """The stored durations; none if there is no file, or one that cannot be read."""
    if path is None:
        return {}
    with suppress(OSError, ValueError, AttributeError):
        values = json.loads(path.read_text(encoding="utf-8"))
        return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
    return {}
