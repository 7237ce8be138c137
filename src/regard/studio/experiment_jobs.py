"""Experiments started from the page: one at a time in a background thread; findings are stored in memory."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from regard._utils import nearest
from regard.display import drawn_bytes, has_matplotlib
from regard.experiments import EXPERIMENTS
from regard.experiments.lib import Finding, chinese_labels, format_cell, label
from regard.serving import MissingError
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import ExperimentReport, JobState


@dataclass(frozen=True)
class JobResult:
    """A finding and its figure."""

    finding: Finding
    figure: LocalizedText | None


class ExperimentJobs:
    """The jobs by experiment name."""

    def __init__(self) -> None:
        # one worker, so that experiments do not compete for the cores
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="experiment")
        self._jobs: dict[str, Future[JobResult]] = {}
        self._lock = Lock()

    def start(self, name: str) -> ExperimentReport:
        """Run an experiment, unless it is running."""
        check_experiment(name)
        # one lock for check and start, so that two requests do not start the same experiment
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.done():
                self._jobs[name] = self._threads.submit(run, name)
        return self.report(name)

    def report(self, name: str) -> ExperimentReport:
        """The state of the job, with the finding once it is done."""
        check_experiment(name)
        entry = EXPERIMENTS[name]
        job = self._jobs.get(name)
        # exception() waits for a running job, and raises for a cancelled one
        # one call of done(): a job may end between two
        ended = job is not None and job.done() and not job.cancelled()
        error = job.exception() if job is not None and ended else None
        result = job.result() if job is not None and ended and error is None else None
        # in this order, because a failed job is done as well, but has no result
        state: JobState = "idle" if job is None else "failed" if error else "running" if result is None else "done"
        finding = None if result is None else result.finding
        return ExperimentReport(
            name=name,
            number=entry.number,
            claim=entry.claim.en,
            paper=entry.paper,
            state=state,
            columns=[] if finding is None else [label_of(name, column) for column in finding.columns],
            rows=[]
            if finding is None
            else [[label_of(name, format_cell(cell)) for cell in row.values()] for row in finding.rows],
            verdict=None if finding is None else LocalizedText.of(finding.verdict),
            holds=None if finding is None else finding.holds,
            figure=None if result is None else result.figure,
            problem=None if error is None else str(error),
        )

    def close(self) -> None:
        """Accept no more jobs."""
        # a running experiment cannot be interrupted
        self._threads.shutdown(wait=False, cancel_futures=True)


def run(name: str) -> JobResult:
    """The finding, with its figure if matplotlib is installed."""
    # a fixed seed, so that every run gives the same numbers
    finding = EXPERIMENTS[name].run(seed=0)
    if not has_matplotlib():
        return JobResult(finding, None)
    # SVG is text, which fits into JSON
    english = drawn_bytes(finding.draw, ("svg",))["svg"].decode()
    with chinese_labels(EXPERIMENTS[name].chinese):
        chinese = drawn_bytes(finding.draw, ("svg",), letters=finding.claim.zh)["svg"].decode()
    return JobResult(finding, LocalizedText(en=english, zh=chinese))


def label_of(name: str, text: str) -> LocalizedText:
    """A column or a cell of an experiment in both languages; numbers are the same."""
    with chinese_labels(EXPERIMENTS[name].chinese):
        return LocalizedText(en=text, zh=label(text))


def check_experiment(name: str) -> None:
    if name not in EXPERIMENTS:
        raise MissingError(f"there is no experiment called {name!r}; the nearest is {nearest(name, EXPERIMENTS)!r}.")
