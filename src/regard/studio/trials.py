"""Experiments run from the page: one at a time, in a thread of their own, their findings kept."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from regard.contracts import nearest
from regard.display.figure import drawn_bytes, has_matplotlib
from regard.experiments import EXPERIMENTS, Finding
from regard.experiments.finding import shown
from regard.studio.errors import MissingError
from regard.studio.schema import Experiment, TrialState


@dataclass(frozen=True)
class Trial:
    """A finding and its figure."""

    finding: Finding
    figure: str | None


class Trials:
    """What was asked for, and what came of it."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="experiment")
        self._asked: dict[str, Future[Trial]] = {}
        self._lock = Lock()

    def start(self, name: str) -> Experiment:
        """Run an experiment, unless it runs already."""
        check_experiment(name)
        with self._lock:
            asked = self._asked.get(name)
            if asked is None or asked.done():
                self._asked[name] = self._threads.submit(run, name)
        return self.report(name)

    def report(self, name: str) -> Experiment:
        """How it stands."""
        check_experiment(name)
        entry = EXPERIMENTS[name]
        asked = self._asked.get(name)
        error = None if asked is None or not asked.done() or asked.cancelled() else asked.exception()
        trial = asked.result() if asked is not None and asked.done() and error is None else None
        state: TrialState = "idle" if asked is None else "failed" if error else "running" if trial is None else "done"
        finding = None if trial is None else trial.finding
        return Experiment(
            name=name,
            number=entry.number,
            claim=entry.claim,
            paper=entry.paper,
            state=state,
            columns=[] if finding is None else list(finding.columns),
            rows=[] if finding is None else [[shown(cell) for cell in row.values()] for row in finding.rows],
            verdict=None if finding is None else finding.verdict,
            holds=None if finding is None else finding.holds,
            figure=None if trial is None else trial.figure,
            problem=None if error is None else str(error),
        )

    def close(self) -> None:
        """Take no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def run(name: str) -> Trial:
    """The finding, and its figure where matplotlib is."""
    finding = EXPERIMENTS[name].run(seed=0)
    figure = drawn_bytes(finding.draw, ("svg",))["svg"].decode() if has_matplotlib() else None
    return Trial(finding, figure)


def check_experiment(name: str) -> None:
    """One that there is."""
    if name not in EXPERIMENTS:
        raise MissingError(f"there is no experiment called {name!r}; the nearest is {nearest(name, EXPERIMENTS)!r}.")
