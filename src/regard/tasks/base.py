"""The Task descriptor, the setup of a training, and settings and checks that tasks share."""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from regard._utils import check_name
from regard.checkpoint import RunFolder, load_metadata
from regard.contracts import Capabilities, Description, ModelEntry, Predictor, RunInfo, Title
from regard.data.batching import Batching
from regard.data.corpora import SPLITS, description_of
from regard.data.text import fingerprint
from regard.models.translation import TRANSLATION_MODELS
from regard.training import Objective, TrainingData

Notify = Callable[[str, str], None]
"""Called with the name of a split and a sentence about the examples that were left out of it."""


@dataclass(frozen=True, kw_only=True)
class BatchSettings(Batching):
    """The size of a training batch. Pairs with more than `max_length` tokens on a side are left out of training."""

    max_length: int = 256

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise ValueError(f"batch.max_length is {self.max_length}, expected 1 token or more.")


@dataclass(frozen=True, kw_only=True)
class ExampleSource:
    """Examples to evaluate on: a split (default: the splits that the task evaluates on) or the user's own files.

    `folder` overrides the data folder of the run.
    """

    split: str | None = None
    source: Path | None = None
    target: Path | None = None
    folder: Path | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingSetup:
    """A run with the sizes that follow from its data, and everything that training needs.

    `files` maps names to the text of files saved beside the weights. `validate` is called with the model during
    training. `example` is a validation input. `fingerprints` are the SHA-256 of the examples of each split by its name,
    because a run is resumed on the same data only. `label_counts` are the numbers of training labels by token, for a
    readout that begins with their frequencies; None leaves it as it is. `model` is a model that needs no gradient
    training, such as n-gram counts; building it took `seconds`.
    """

    run: Any
    files: Mapping[str, str]
    data: TrainingData
    validate: Callable[[Any], Mapping[str, float]]
    example: str
    objective: Callable[..., nn.Module] = field(default=Objective)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    label_counts: Int[np.ndarray, " vocab"] | None = None
    model: Any = None
    seconds: float = 0.0


def describe_run(run: Any) -> Description:
    """What the corpus of a run says of its inputs and outputs."""
    return description_of(run.data)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Description of a task. Code outside the task's own folder uses only this and the Predictor protocol.

    A run is a frozen dataclass with at least recipe, model_name, model, data and training. `data` is a frozen dataclass
    too; config.json holds both. `verb` is the command that uses a trained folder, `unit` is what a label belongs to.

        setup(run, checkpoint, *, resume, notify)   -> TrainingSetup; if resumed, tokenizers come from the folder
        open(run, model, checkpoint)                -> Predictor
        read_examples(run, ExampleSource)           -> examples by name, as Predictor.evaluate takes them
        example_command(run, folder, example)       -> a command line that uses the folder
        describe(run)                               -> Description, known before a model is loaded

    `evaluate_options` are the options of Predictor.evaluate with their defaults. `capabilities` lists what the
    predictors support beyond predict, score and inspect.
    """

    name: str
    title: Title
    verb: str
    input: Literal["text", "image", "audio"]
    models: Mapping[str, ModelEntry]
    run_type: type
    setup: Callable[..., TrainingSetup]
    open: Callable[..., Predictor]
    read_examples: Callable[[Any, ExampleSource], Mapping[str, Any]]
    example_command: Callable[[Any, str, str], str]
    describe: Callable[[Any], Description] = describe_run
    unit: str = "tokens"
    evaluate_options: Mapping[str, Any] = field(default_factory=dict)
    capabilities: Capabilities = field(default_factory=Capabilities)


def corpus_of(run: Any, folder: Path | None) -> Any:
    """The corpus of a run, optionally with another data folder."""
    if folder is None:
        return run.data
    if not hasattr(run.data, "folder"):
        raise ValueError(f"the recipe {run.recipe} has no data folder. Leave out --data.")
    return replace(run.data, folder=str(folder))


def read_splits(corpus: Any, split: str | None) -> dict[str, Any]:
    """One split, or all splits but the first (training), by name."""
    return {name: corpus.read(name) for name in ([split] if split else corpus.splits[1:])}


def fingerprints_of(corpus: Any, splits: Mapping[str, Any]) -> dict[str, str]:
    """The fingerprints of these splits, and of the other splits of the corpus, which are read for this."""
    fingerprints = {name: fingerprint(examples) for name, examples in splits.items()}
    # corpora of other packages may have no `splits`
    for name in getattr(corpus, "splits", SPLITS):
        if name not in fingerprints:
            # a published test set need not be there for training
            with suppress(ValueError, OSError):
                fingerprints[name] = fingerprint(corpus.read(name))
    return fingerprints


def refuse_own_outputs(run: Any) -> None:
    """Reject training on own outputs, for tasks whose objectives have none."""
    if run.training.own_output_ratio:
        raise ValueError(
            f"training.own_output_ratio is {run.training.own_output_ratio}, and a {run.model_name} trains with its "
            f"true inputs only. Leave the setting out."
        )


def refuse_target(run: Any, source: ExampleSource) -> None:
    """Reject a target file, for tasks whose examples come from one file."""
    if source.target is not None:
        raise ValueError(f"--target names translations, and a {run.model_name} makes none. Leave it out.")


def run_info(
    predictor: Predictor, *, task: str, split: str, num_examples: int, steps: int, search: str = ""
) -> RunInfo:
    """The system, data and search of an evaluation; `steps` is the number of training steps."""
    run = predictor.run
    return RunInfo(
        task=task,
        system=run.model_name,
        data=data_of(run),
        split=split,
        examples=num_examples,
        search=search,
        parameters=count_parameters(predictor.model),
        steps=steps,
        seed=run.training.seed,
    )


def data_of(run: Any) -> str:
    """The recipe with its languages and form, or the name of the user's file."""
    languages = "-".join(name for name in getattr(run.data, "languages", ()) if name)
    file = getattr(run.data, "data", None)
    parts = (run.recipe, languages, getattr(run.data, "form", ""), "" if file is None else Path(file).name)
    return " ".join(part for part in parts if part)


def steps_of(folder: Path) -> int:
    """The training step of the weights in a folder; for averaged weights, the last step."""
    path = RunFolder(folder).weights
    facts = load_metadata(path)
    # averaged weights record the steps of the average instead of one
    steps = [facts["step"]] if "step" in facts else facts.get("average", [0])
    if not (isinstance(steps, list) and steps and all(type(step) is int for step in steps)):
        raise ValueError(f"the metadata of {path} name the steps {str(steps)[:60]}. Restore it from a copy.")
    return max(steps)


def hardware(device: torch.device) -> str:
    """A short description of the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"


def count_parameters(model: Any) -> int:
    """Number of parameters; tied parameters count once."""
    # parameters() yields a shared tensor once
    return sum(parameter.numel() for parameter in model.parameters())


def parse_text(data: str | bytes) -> str:
    """A string unchanged, or bytes decoded as UTF-8."""
    if isinstance(data, str):
        check_texts([data], "inputs")
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"the input is not text in UTF-8: byte {error.start} cannot be decoded. Convert it.") from None


# what every tokenizer takes as white space; ▁ is its own mark of a word start
BLANK = re.compile(r"[\s▁\x1c-\x1f\x85]*")


def refuse_blank(text: str) -> str:
    """The text; ValueError if it has no tokens, the same for every predictor."""
    if BLANK.fullmatch(text):
        raise ValueError("the text has no tokens. Type a word.")
    return text


def check_texts(texts: Sequence[str], name: str) -> None:
    """Reject a single string where a list is expected, elements that are not strings, and unpaired surrogates."""
    if isinstance(texts, str):
        raise ValueError(f"{name} is one string, expected a list of them. Write [{name}].")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name}[{index}] is a {type(text).__name__}, expected a string.")
        # an unpaired surrogate is all that UTF-8 cannot encode
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{name}[{index}] contains an unpaired surrogate at index {error.start}: {text[error.start]!r}. "
                f"Give text in UTF-8."
            ) from None


def check_pairs(inputs: Sequence[str], outputs: Sequence[str], names: tuple[str, str]) -> None:
    """Reject lists of different lengths."""
    check_texts(inputs, names[0])
    check_texts(outputs, names[1])
    if len(inputs) != len(outputs):
        raise ValueError(
            f"there are {len(inputs)} {names[0]} and {len(outputs)} {names[1]}. Give one of {names[1]} for each."
        )


def configure(
    model: str, sizes: Mapping[str, Mapping[str, Any]], models: Mapping[str, ModelEntry] = TRANSLATION_MODELS
) -> Any:
    """The config of a model with the sizes of a recipe; other fields keep their defaults."""
    check_name(model, models, "model")
    return models[model].config(**sizes.get(model, {}))


def equal_size(target: int, parameters_at: Callable[[int], int], *, max_size: int = 2048) -> int:
    """The size up to `max_size` at which a model, whose parameters grow with it, has about `target` parameters."""
    # the first size with at least `target` parameters, by bisection
    # an index into the range, which begins at 1
    above = 1 + bisect_left(range(1, max_size), target, key=parameters_at)
    # the closer of the two neighbours
    return min((max(above - 1, 1), above), key=lambda size: abs(parameters_at(size) - target))
