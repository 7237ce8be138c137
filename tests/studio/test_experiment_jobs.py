"""Experiments with settings: ranges, runs by their settings, the three outcomes, cancellation, bounds in number."""

import inspect
import threading
import time

import pytest

from regard.contracts import Title, check_cancelled
from regard.experiments import EXPERIMENTS
from regard.experiments.lib import OUTCOMES, Experiment, Finding
from regard.serving import BusyError, MissingError, RefusedError
from regard.studio import experiment_jobs
from regard.studio.experiment_jobs import ExperimentJobs
from regard.studio.experiment_settings import LABELS, arguments_of, complete_settings, controls_of

CLAIM = Title(en="So.", zh="如此。")


class StandIn:
    """An experiment that ends when it may; more repetitions give another outcome."""

    def __init__(self):
        self.may_end, self.calls = threading.Event(), []

    def run(self, *, seed: int = 0, repeats: int = 4, noise: float = 0.5, is_long: bool = False, size: int = 0):
        self.calls.append({"seed": seed, "repeats": repeats, "noise": noise})
        while not self.may_end.wait(0.01):
            check_cancelled()
        if repeats == 8:
            raise ValueError("8 repetitions are too many. Take fewer.")
        holds = {4: True, 5: False}.get(repeats)
        rows = ({"repeats": repeats, "noise": noise},)
        draw = lambda figure: figure.subplots().plot([1, repeats])  # noqa: E731
        return Finding(name="stand_in", claim=CLAIM, rows=rows, verdict=CLAIM, holds=holds, draw=draw)


@pytest.fixture
def stand_in(monkeypatch):
    """A stand-in among the experiments."""
    created = StandIn()
    entry = Experiment(run=created.run, number="G99", title=CLAIM, claim=CLAIM, paper="https://example.org")
    monkeypatch.setitem(EXPERIMENTS, "stand_in", entry)
    yield created
    created.may_end.set()


@pytest.fixture
def jobs():
    created = ExperimentJobs()
    yield created
    created.close()


def wait_for(report, *states):
    """The first report in one of these states."""
    until = time.monotonic() + 60
    while (answer := report()).state not in states:
        assert time.monotonic() < until, answer.state
        time.sleep(0.01)
    return answer


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_settings_in_both_languages(name):
    entry = EXPERIMENTS[name]
    controls = {control.name: control for control in controls_of(entry)}
    assert (controls["seed"].low, controls["seed"].high, controls["seed"].value) == (0, 9999, 0)
    for control in controls.values():
        assert control.low <= control.value <= control.high
        steps = (control.value - control.low) / control.step
        assert steps == pytest.approx(round(steps)) or control.name in entry.bounds, "the slider reaches the default"
        assert control.name in LABELS or control.name in entry.chinese, f"LABELS has no Chinese for {control.name}"
    for repetitions in {"seeds", "repeats"} & set(controls):
        assert controls[repetitions].low >= 2, "one repetition has no standard deviation"
    arguments = arguments_of(entry, complete_settings(entry, {}))
    defaults = {one.name: one.default for one in inspect.signature(entry.run).parameters.values()}
    assert arguments == {argument: defaults[argument] for argument in arguments}
    assert all(type(value) is type(defaults[argument]) for argument, value in arguments.items())


def test_ranges_follow_from_the_defaults(stand_in):
    entry = EXPERIMENTS["stand_in"]
    ranges = {one.name: (one.low, one.high, one.step) for one in controls_of(entry)}
    # a flag picks a variant, and 0 has no range
    assert ranges == {"seed": (0, 9999, 1), "repeats": (2, 8, 1), "noise": (0.125, 1, 0.025)}


def test_an_experiment_may_declare_bounds(stand_in):
    bounds = {"repeats": (3, 40), "noise": (0.5, 0.5), "size": (0, 10)}
    entry = Experiment(run=stand_in.run, number="G1", title=CLAIM, claim=CLAIM, paper="", bounds=bounds)
    ranges = {one.name: (one.low, one.high, one.step) for one in controls_of(entry)}
    assert ranges == {"seed": (0, 9999, 1), "repeats": (3, 40, 1), "size": (0, 10, 1)}


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": 9.0}, "repeats is 9, which is out of range. Choose a number from 2 to 8."),
        ({"repeats": 2.5}, "repeats is 2.5, but it is a count."),
        ({"noise": float("nan")}, "noise is nan, which is not a finite number."),
        ({"nois": 0.5}, "there is no control 'nois'; the nearest is 'noise'."),
        ({"is_long": 1.0}, "there is no control 'is_long'"),
    ],
)
def test_settings_outside_their_range_are_refused(stand_in, jobs, settings, message):
    with pytest.raises(RefusedError, match=message):
        jobs.start("stand_in", settings)
    assert stand_in.calls == []
    with pytest.raises(MissingError, match="no experiment called 'stand_on'; the nearest is 'stand_in'"):
        jobs.report("stand_on", {})


def test_runs_are_identified_by_their_settings(stand_in, jobs):
    stand_in.may_end.set()
    idle = jobs.report("stand_in", {"repeats": 5})
    assert (idle.state, idle.result, idle.seconds, idle.runs) == ("idle", None, None, [])
    assert idle.settings == {"seed": 0, "repeats": 5, "noise": 0.5}
    outcomes = {4: "holds", 5: "fails", 6: "undecided"}
    for repeats, outcome in outcomes.items():
        jobs.start("stand_in", {"repeats": repeats})
        report = wait_for(lambda repeats=repeats: jobs.report("stand_in", {"repeats": repeats}), "done")
        verdict = report.result.verdict
        assert (verdict.outcome, verdict.text.zh) == (outcome, "如此。")
        assert verdict.sentence.en in {sentence.en for sentence in OUTCOMES.values()}
        assert report.result.rows[0][0].en == str(repeats)
    assert [(run.settings["repeats"], run.outcome) for run in report.runs] == list(outcomes.items())
    assert all(run.state == "done" and run.seconds >= 0 for run in report.runs)
    # whole numbers reach `run` as int
    assert stand_in.calls[0] == {"seed": 0, "repeats": 4, "noise": 0.5} and type(stand_in.calls[0]["repeats"]) is int
    # defaults that are left out, or given, are the same run
    assert jobs.report("stand_in", {}).result == jobs.report("stand_in", {"repeats": 4, "noise": 0.5}).result
    assert jobs.report("stand_in", {"seed": 1}).state == "idle"


def test_a_failed_run_has_its_reason(stand_in, jobs):
    stand_in.may_end.set()
    jobs.start("stand_in", {"repeats": 8})
    report = wait_for(lambda: jobs.report("stand_in", {"repeats": 8}), "failed")
    assert report.problem == "8 repetitions are too many. Take fewer." and report.result is None


def test_runs_wait_for_each_other_and_are_cancelled(stand_in, jobs):
    jobs.start("stand_in", {})
    first = wait_for(lambda: jobs.report("stand_in", {}), "running")
    assert first.seconds >= 0
    waiting = jobs.start("stand_in", {"repeats": 5})
    assert waiting.state == "waiting" and waiting.seconds is None
    # a run that waits leaves at once
    assert jobs.cancel("stand_in", {"repeats": 5}).state == "idle"
    assert jobs.cancel("stand_in", {}).state in ("stopping", "idle")
    assert wait_for(lambda: jobs.report("stand_in", {}), "idle").runs == []
    with pytest.raises(MissingError, match="no run of 'stand_in' with these settings"):
        jobs.cancel("stand_in", {})
    # the thread continues with the next run
    stand_in.may_end.set()
    jobs.start("stand_in", {"repeats": 6})
    wait_for(lambda: jobs.report("stand_in", {"repeats": 6}), "done")
    assert [call["repeats"] for call in stand_in.calls] == [4, 6]


def test_a_second_start_does_not_start_a_second_run(stand_in, jobs):
    for _ in range(3):
        jobs.start("stand_in", {})
    stand_in.may_end.set()
    wait_for(lambda: jobs.report("stand_in", {}), "done")
    assert len(stand_in.calls) == 1


def test_runs_and_results_are_bounded(stand_in, jobs, monkeypatch):
    for seed in range(experiment_jobs.MAX_WAITING):
        jobs.start("stand_in", {"seed": seed})
    with pytest.raises(BusyError, match="8 experiments already wait or run"):
        jobs.start("stand_in", {"seed": 100})
    monkeypatch.setattr(experiment_jobs, "MAX_ENDED", 3)
    stand_in.may_end.set()
    report = wait_for(lambda: jobs.report("stand_in", {"seed": experiment_jobs.MAX_WAITING - 1}), "done")
    assert [run.settings["seed"] for run in report.runs] == [5, 6, 7]


def test_the_duration_with_default_settings_is_stored(stand_in, tmp_path):
    stand_in.may_end.set()
    jobs = ExperimentJobs(tmp_path / "data")
    assert jobs.report("stand_in", {}).default_seconds is None
    for settings in ({"seed": 1}, {}):
        jobs.start("stand_in", settings)
    wait_for(lambda: jobs.report("stand_in", {}), "done")
    until = time.monotonic() + 60
    while not (tmp_path / "data" / experiment_jobs.DURATIONS).is_file():
        assert time.monotonic() < until
        time.sleep(0.01)
    jobs.close()
    restarted = ExperimentJobs(tmp_path / "data")
    assert restarted.report("stand_in", {}).default_seconds >= 0
    restarted.close()
    (tmp_path / "data" / experiment_jobs.DURATIONS).write_text("[]")
    damaged = ExperimentJobs(tmp_path / "data")
    assert damaged.report("stand_in", {}).default_seconds is None
    damaged.close()


def test_closing_ends_a_run(stand_in):
    jobs = ExperimentJobs()
    jobs.start("stand_in", {})
    wait_for(lambda: jobs.report("stand_in", {}), "running")
    jobs.close()
    wait_for(lambda: jobs.report("stand_in", {}), "idle")


def test_the_routes_of_an_experiment(client):
    where, settings = "/api/experiments/scaling", {"c": ["repeats:2", "num_queries:64"]}
    assert client.get(where).json()["state"] == "idle"
    answer = client.post(where, params=settings).json()
    while answer["state"] in ("waiting", "running"):
        time.sleep(0.05)
        answer = client.get(where, params=settings).json()
    assert answer["state"] == "done" and answer["result"]["verdict"]["outcome"] == "holds"
    result = answer["result"]
    assert result["figure"]["en"].startswith("<?xml") and "分数的方差" in result["figure"]["zh"]
    assert "纳特" in result["verdict"]["text"]["zh"] and result["columns"][0] == {"en": "size d", "zh": "维度 d"}
    assert result["verdict"]["sentence"] == {"en": "Holds.", "zh": "成立。"}
    assert client.get(where).json()["state"] == "idle", "another run"
    for request in (client.get, client.post, client.delete):
        refused = request(where, params={"c": "repeats:1000"})
        assert refused.status_code == 422 and "out of range. Choose a number from 2 to 10." in refused.json()["detail"]
        assert request(where, params={"c": "repeats"}).status_code == 422
        assert request("/api/experiments/nothing").status_code == 404
    assert client.delete(where, params=settings).status_code == 404, "it has ended"
