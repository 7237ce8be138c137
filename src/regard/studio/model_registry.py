"""The models of the studio: checkpoints in folders, loaded when needed, and predictors in memory.

A request refers to a model by its name in the registry, never by a path.
"""

import logging
import math
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors import safe_open

from regard._utils import nearest, read_text
from regard.checkpoint import RunFolder
from regard.contracts import Capabilities
from regard.data.corpora import samples_of
from regard.serving import MissingError, RefusedError
from regard.studio.schema.base import LocalizedText, Problem
from regard.studio.schema.models import ModelCard, ModelQuality, QualityBucket
from regard.tasks import all_tasks, count_parameters, load, read_report, read_run, steps_of, task_of

logger = logging.getLogger(__name__)
# levels of folders below a root
MAX_DEPTH = 3
MAX_FOLDERS, MAX_LOADED = 2000, 8
SCAN_INTERVAL = 1.0
"""Seconds between two scans of the disk."""
SPLITS = ("test", "test-beam-1", "validation")
"""Evaluations, the preferred one first."""

# at import, before `activate` changes the number
THREADS = torch.get_num_threads()
SMALL = 20_000_000
"""Parameters below which one thread is faster than several, because of synchronisation at every step."""


@dataclass(frozen=True, kw_only=True)
class RegisteredModel:
    """A loaded predictor and its checkpoint's folder, if any; with `fixed_input` its input cannot be chosen."""

    name: str
    predictor: Any
    capabilities: Capabilities = field(default_factory=Capabilities)
    version: str = "1"
    folder: Path | None = None
    threads: int = 1
    fixed_input: bool = False

    def activate(self) -> Any:
        """The predictor; sets torch's number of threads for the calling thread."""
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        return self.predictor


class ModelRegistry:
    """All models by name."""

    def __init__(self, roots: Sequence[Path]) -> None:
        # resolved, because is_inside compares paths without links
        self.roots = tuple(root.resolve() for root in roots)
        self._loaded: OrderedDict[Path, RegisteredModel] = OrderedDict()
        self._cards: dict[str, tuple[str, ModelCard]] = {}
        self._added: dict[str, tuple[RegisteredModel, ModelCard]] = {}
        self._folders: dict[str, Path] = {}
        # version and problem of checkpoints that could not be loaded
        self._failures: dict[Path, tuple[str, str]] = {}
        # the first call always scans
        self._scanned_at = float("-inf")
        # two locks: a request for the folders must not wait until a model is loaded
        self._lock, self._scanning = Lock(), Lock()

    def add(self, model: RegisteredModel, card: ModelCard) -> None:
        """Register a predictor in memory; it is listed after the checkpoints."""
        if card.name != model.name:
            raise ValueError(f"the card is named {card.name!r} and the model {model.name!r}. Give both one name.")
        self._added[model.name] = model, card

    def folders(self) -> dict[str, Path]:
        """Name -> folder of every run, also of runs without a model yet; scanned at most once a second."""
        # several requests at once would otherwise scan the disk several times
        with self._scanning:
            # monotonic: the wall clock may be set back, and nothing would be scanned for a long time
            if time.monotonic() - self._scanned_at > SCAN_INTERVAL:
                self._folders, self._scanned_at = self.scan(), time.monotonic()
            return self._folders

    def scan(self) -> dict[str, Path]:
        """Every run below the roots, by the shortest unique tail of its path."""
        # roots may be nested, and then contain the same runs
        runs = list(dict.fromkeys(folder for root in self.roots for folder in runs_below(root)))
        names: dict[str, Path] = {}
        for folder in runs:
            parts = folder.parts
            sizes = range(1, len(parts) + 1)
            tails = ("/".join(parts[-size:]) for size in sizes)
            # with a slash in front, so that a name matches whole parts of a path
            unique = (tail for tail in tails if sum(("/" + str(other)).endswith("/" + tail) for other in runs) == 1)
            # JSON needs UTF-8, folder names may be any bytes
            names[os.fsencode(next(unique, str(folder))).decode("utf-8", "replace")] = folder
        return names

    def checkpoint_cards(self) -> tuple[list[ModelCard], list[Problem]]:
        """The cards of all usable checkpoints by task and history, and the problems of the others."""
        cards, problems = [], []
        for name, folder in self.folders().items():
            # a run in training has no model yet
            if not RunFolder(folder).weights.is_file():
                continue
            version, problem = self._failures.get(folder, ("", ""))
            # until its files change, it is not offered again
            if problem and version == version_of_files(folder):
                problems.append(Problem(detail=f"{name}: {problem}"))
                continue
            try:
                cards.append(self.card(name, folder))
            except Exception as error:  # an error in one run must not hide the others
                problems.append(Problem(detail=f"{name}: {printable(error)}"))
        # tables are in history order; a task in a user's own file is in no table and comes last
        systems = [(task.name, system) for task in all_tasks().values() for system in task.models]
        order = {system: number for number, system in enumerate(systems)}
        cards.sort(key=lambda card: (order.get((card.task, card.system), len(order)), card.name))
        return cards, problems

    def cards(self) -> tuple[list[ModelCard], list[Problem]]:
        """The cards of checkpoints and of models in memory, and the problems of other checkpoints."""
        cards, problems = self.checkpoint_cards()
        return [*cards, *(card for _, card in self._added.values())], problems

    def card(self, name: str, folder: Path) -> ModelCard:
        """The card of a checkpoint, cached until its files change."""
        # without a lock: two threads may make the same card, and both are right
        checkpoint = RunFolder(folder)
        # evaluations too, because the card has the quality
        version = version_of(checkpoint.weights, *(checkpoint.evaluation(split) for split in SPLITS))
        cached = self._cards.get(name)
        if cached is None or cached[0] != version:
            cached = version, make_card(name, folder)
            self._cards[name] = cached
        return cached[1]

    def load(self, name: str) -> RegisteredModel:
        """A model, loaded at first use and whenever its weights have changed."""
        if name in self._added:
            return self._added[name][0]
        folders = self.folders()
        folder = folders.get(name)
        if folder is None or not RunFolder(folder).weights.is_file():
            near = f" The nearest is {nearest(name, folders)!r}." if folders else ""
            raise MissingError(f"there is no model called {name!r}.{near}")
        # loaded under the lock, so that two requests do not load a model twice
        with self._lock:
            version = version_of_files(folder)
            model = self._loaded.get(folder)
            # the folder may have new weights, if it was trained again
            if model is None or model.version != version:
                predictor = self._load_predictor(folder, version)
                model = self._loaded[folder] = RegisteredModel(
                    name=name,
                    version=version,
                    folder=folder,
                    predictor=predictor,
                    capabilities=task_of(predictor.run).capabilities,
                    threads=1 if count_parameters(predictor.model) < SMALL else THREADS,
                )
            self._loaded.move_to_end(folder)
            # the least recently used predictor is dropped; its next request loads it again
            while len(self._loaded) > MAX_LOADED:
                self._loaded.popitem(last=False)
            return model

    def _load_predictor(self, folder: Path, version: str) -> Any:
        """The predictor of a folder; a folder that cannot be loaded is listed with the reason from now on."""
        try:
            predictor = load_predictor(folder)
        except RefusedError as error:
            self._failures[folder] = version, printable(error)
            raise
        self._failures.pop(folder, None)
        return predictor


def runs_below(root: Path) -> Iterator[Path]:
    """Folders with a config, at most MAX_DEPTH levels down; links out of the root are not followed."""
    # bounded, because a root may be the whole disk
    for current, folders, files in islice(os.walk(root, followlinks=False), MAX_FOLDERS):
        folder = Path(current)
        if "config.json" in files:
            if is_inside(folder, root):
                yield folder
            # in place: os.walk then leaves out what is below
            folders.clear()
        # a run contains no other runs, and deep trees are not searched
        elif len(folder.relative_to(root).parts) >= MAX_DEPTH:
            folders.clear()
        # hidden folders contain scratch files; sorted, because file systems have no order
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def printable(error: Exception) -> str:
    """The message of an error as valid UTF-8; a path in it may contain other bytes."""
    return str(error).encode("utf-8", "replace").decode()


def is_inside(folder: Path, root: Path) -> bool:
    """True if all files of a run are regular files below the root."""
    checkpoint = RunFolder(folder)
    # the content of these files is served, and a link could name any file of the user
    paths = (
        checkpoint.config,
        checkpoint.weights,
        checkpoint.tokenizer,
        checkpoint.target_tokenizer,
        checkpoint.metrics,
    )
    try:
        # lexists is true for a broken link, which is_file then refuses
        return all(path.is_file() and path.resolve().is_relative_to(root) for path in paths if os.path.lexists(path))
    except (OSError, RuntimeError):
        # a link that points to itself
        return False


def version_of(*paths: Path) -> str:
    """A string that changes when one of the files does."""
    # in nanoseconds, because a file may be written twice within a second
    return "-".join(str(path.stat().st_mtime_ns) for path in paths if path.is_file())


def version_of_files(folder: Path) -> str:
    """A string that changes when a file that a predictor is loaded from does."""
    checkpoint = RunFolder(folder)
    return version_of(checkpoint.weights, checkpoint.config, checkpoint.tokenizer, checkpoint.target_tokenizer)


def load_predictor(folder: Path) -> Any:
    """The predictor of a folder; RefusedError with the reason if it cannot be loaded."""
    try:
        predictor = load(folder)
        check_tokenizers(predictor, folder.name)
    except RefusedError:
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    # a folder may be damaged in any way: the reason is sent to the page; a panic of a library in Rust is no Exception
    except BaseException as error:
        # an error without a sentence of ours is a case that the loading code does not know, so its place is recorded
        is_expected = isinstance(error, (ValueError, OSError))
        logger.warning("%s cannot be loaded: %r", folder, error, exc_info=not is_expected)
        reason = (
            str(error) if is_expected else f"{type(error).__name__}: {error}. Its files are damaged; copy them again"
        )
        raise RefusedError(f"{folder.name} cannot be loaded: {reason}") from None
    return predictor


def check_tokenizers(predictor: Any, name: str) -> None:
    """Refuse a tokenizer with more tokens than the model has embeddings."""
    config = predictor.run.model
    pair = getattr(predictor, "tokenizers", None)
    tokenizers = {"": getattr(predictor, "tokenizer", None)}
    if pair is not None:
        tokenizers = {"source ": pair.source, "target ": pair.target}
    for side, tokenizer in tokenizers.items():
        if tokenizer is None:
            continue
        # source_vocab_size, target_vocab_size or vocab_size
        vocab_size = getattr(config, f"{side.replace(' ', '_')}vocab_size", tokenizer.vocab_size)
        # fewer tokens than embeddings do no harm
        if tokenizer.vocab_size > vocab_size:
            raise RefusedError(
                f"the {side}tokenizer of {name} has {tokenizer.vocab_size} tokens and its model {vocab_size}: they "
                f"belong to different runs."
            )


def make_card(name: str, folder: Path) -> ModelCard:
    """The card of a checkpoint from its config, the header of its weights and its evaluation."""
    checkpoint = RunFolder(folder)
    run = read_run(checkpoint)
    task = task_of(run)
    entry, description = task.models[run.model_name], task.describe(run)
    # the header of a safetensors file has the shapes; no weights are read
    with safe_open(checkpoint.weights, framework="pt") as weights:
        sizes = [weights.get_slice(key).get_shape() for key in weights.keys()]  # noqa: SIM118
    return ModelCard(
        name=name,
        task=task.name,
        task_title=LocalizedText.of(task.title),
        verb=task.verb,
        input=task.input,
        takes_output=task.capabilities.takes_output,
        streams=task.capabilities.streams,
        multiline=task.capabilities.multiline,
        responds=task.capabilities.responds,
        fixed_input=False,
        system=run.model_name,
        title=entry.title,
        year=entry.year,
        attends=entry.attends,
        parameters=sum(math.prod(size) for size in sizes),
        recipe=run.recipe,
        # languages of the user's files may be empty
        languages=[language for language in getattr(run.data, "languages", ()) if language],
        reads=LocalizedText.of(description.reads),
        writes=LocalizedText.of(description.writes),
        parts=None if entry.parts is None else LocalizedText.of(entry.parts),
        tokens=getattr(getattr(run, "tokenizer", None), "kind", ""),
        steps=steps_of(folder),
        samples=samples_of(run.data),
        quality=quality_or_none(checkpoint),
    )


def quality_or_none(checkpoint: RunFolder) -> ModelQuality | None:
    """The quality of a checkpoint; None also if its evaluation cannot be read."""
    try:
        return find_quality(checkpoint)
    # json raises RecursionError for values that are nested too deeply
    except (ValueError, OSError, RecursionError):
        return None


def find_quality(checkpoint: RunFolder) -> ModelQuality | None:
    """The main metric of the preferred evaluation file, with quality by length if it was measured.

    The table `by_length` has a label, a count and a value in its columns.
    """
    path = next((path for split in SPLITS if (path := checkpoint.evaluation(split)).is_file()), None)
    if path is None:
        return None
    report = read_report(read_text(path))
    if not report.metrics:
        return None
    metric, table = report.metrics[0], report.table("by_length")
    buckets = []
    if table is not None:
        # shares are stored, per cent are shown
        scale = scale_of(table.columns[2].format)
        buckets = [
            QualityBucket(label=str(label), count=int(count), value=None if value is None else scale * float(value))
            for label, count, value in table.rows
            # a bucket without inputs has no quality
            if count
        ]
    return ModelQuality(
        metric=metric.title,
        value=scale_of(metric.format) * metric.value,
        split=report.info.split,
        examples=report.info.examples,
        signature=metric.signature,
        unit="%" if metric.format.endswith("%") else "",
        by_length=buckets,
    )


def scale_of(format_: str) -> float:
    """100 for a percentage format, else 1."""
    return 100.0 if format_.endswith("%") else 1.0
