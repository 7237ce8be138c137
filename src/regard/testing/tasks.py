"""The contract of a task: its runs train, save, load, resume, predict, score and are evaluated.

    check_task(TASK, run, folder)

`run` is one that trains in seconds; `folder` is empty or does not exist yet.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard._utils import VERSION
from regard.contracts import Predictor, Report
from regard.tasks import (
    ExampleSource,
    Task,
    fit,
    from_config,
    load,
    read_report,
    steps_of,
    task_of,
    to_config,
    write_report,
)

TOLERANCE = 1e-4


def check_task(task: Task, run: Any, folder: Path) -> None:
    """Train the run into the folder and check every step on the way."""
    check_description(task, run)
    fitted = fit(run, folder, console=Console(quiet=True))
    predictor = fitted.system
    assert isinstance(predictor, Predictor), (
        f"{type(predictor).__name__} is no Predictor: it has no {', '.join(missing_members(predictor))}."
    )
    inputs = [predictor.parse(fitted.example), *map(predictor.parse, predictor.samples())]
    check_predictions(predictor, inputs)
    check_loaded(predictor, folder, inputs)
    check_reports(task, predictor, folder)
    # the run of the predictor has the sizes that follow from the data
    resumed = fit(predictor.run, folder, resume=True, console=Console(quiet=True))
    assert resumed.result.steps == fitted.result.steps, "a run that is complete is trained further when it is resumed."


def check_description(task: Task, run: Any) -> None:
    """The fields of the task, and that its run is found again from what config.json records."""
    assert task.name.isidentifier(), f"the name {task.name!r} is no identifier, and it is a key of tables and files."
    assert task.title.en, "the task has no English title."
    assert task.title.zh, "the task has no Chinese title."
    # any verb: load_as compares it, and only some verbs have a command of regard
    assert task.verb.isidentifier(), f"the verb {task.verb!r} is no identifier, and load_as takes it as a name."
    assert "FOLDER" in task.example_command(run, "FOLDER", "x"), "the example of a command does not name the folder."
    assert run.model_name in task.models, f"{run.model_name} is not in the task's table of models."
    assert isinstance(run, task.run_type), f"the run is a {type(run).__name__}, not a {task.run_type.__name__}."
    assert task_of(run).run_type is task.run_type, "another task claims this type of run."
    # through text, as in a file: tuples become lists
    config = json.loads(json.dumps(to_config(run, VERSION)))
    assert from_config(config, "config.json") == run, "the run read back from its config.json is another one."


def missing_members(predictor: Any) -> list[str]:
    """Members of the protocol that an object lacks."""
    names = (
        "model",
        "run",
        "device",
        "parse",
        "predict",
        "score",
        "inspect",
        "respond",
        "evaluate",
        "samples",
        "description",
        "unknown_in",
    )
    return [name for name in names if not hasattr(predictor, name)]


def check_predictions(predictor: Predictor, inputs: list[Any]) -> None:
    """An output for each input, with text, equal alone and in a batch; scores are log-probabilities."""
    outputs = predictor.predict(inputs)
    texts = [str(output) for output in outputs]
    assert len(texts) == len(inputs), f"{len(inputs)} inputs have {len(texts)} outputs."
    assert predictor.predict([]) == [], "no inputs have outputs."
    assert [str(output) for output in predictor.predict(inputs[:1])] == texts[:1], "an output depends on other inputs."
    for number, value in enumerate(predictor.score(inputs, texts)):
        # rounding may exceed 0, the logarithm of 1
        assert value <= TOLERANCE, f"the score {value} is no log-probability."
        # alone, the input has other padding
        (single,) = predictor.score(inputs[number : number + 1], texts[number : number + 1])
        assert math.isclose(single, value, abs_tol=TOLERANCE), "a score depends on the other inputs."


def check_loaded(predictor: Predictor, folder: Path, inputs: list[Any]) -> None:
    """A folder gives the same predictor again, without a draw from torch's generator."""
    before = torch.get_rng_state()
    loaded = load(folder, device=predictor.device)
    assert torch.equal(before, torch.get_rng_state()), "loading draws random numbers of the caller."
    assert loaded.run == predictor.run, "the loaded run is another one."
    assert not loaded.model.training, "the loaded model is in training mode."
    texts = [[str(output) for output in one.predict(inputs)] for one in (predictor, loaded)]
    assert texts[0] == texts[1], "the loaded predictor has other outputs."


def check_reports(task: Task, predictor: Predictor, folder: Path) -> None:
    """Every default set of examples has a report with a metric, which survives its file."""
    examples = task.read_examples(predictor.run, ExampleSource())
    assert examples, "the task reads no examples without a split."
    for name, split_examples in examples.items():
        report = predictor.evaluate(split_examples, split=name, steps=steps_of(folder), **task.evaluate_options)
        assert isinstance(report, Report), f"evaluate gave a {type(report).__name__}, not a Report."
        assert report.metrics, "the report has no metric."
        assert (report.info.task, report.info.split) == (task.name, name), "the report's task or split is another one."
        assert report.info.examples > 0, "the report counts no examples."
        again = read_report(write_report(report))
        assert [metric.name for metric in again.metrics] == [metric.name for metric in report.metrics]
        assert write_report(again) == write_report(report), "the report changes when it is written and read."
