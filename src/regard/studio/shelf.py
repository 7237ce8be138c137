"""The shelf: checkpoints below the folders that were named, each found by scanning and loaded once.

A request names a system by the name it has on the shelf, never by a path.
"""

import math
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from regard.contracts import nearest
from regard.models import FAMILIES
from regard.recipes import TASKS, count_parameters, load, steps_of, task_of
from regard.recipes.folder import read_run
from regard.storage import Checkpoint
from regard.studio.errors import MissingError, RefusedError
from regard.studio.examples import EXAMPLES, Worked
from regard.studio.quality import SPLITS, quality_or_none
from regard.studio.samples import samples_of
from regard.studio.schema import Kind, ModelCard, Problem
from regard.studio.sites import SiteFacts, find_sites

DEEPEST = 3
MOST_FOLDERS, MOST_LOADED = 2000, 8
FRESH = 1.0
"""Seconds for which a scan of the disk is believed."""
KINDS: tuple[Kind, ...] = ("translation", "language", "sentences")
KIND_OF: dict[str, Kind] = dict(zip(TASKS, KINDS, strict=True))
IS = {"translation": "translates", "language": "is a language model", "sentences": "sorts sentences into classes"}
CANNOT = {"translation": "translates nothing", "language": "goes on with no text", "sentences": "knows no classes"}
USE = {
    "translation": "POST /api/translate translates with it.",
    "language": "POST /api/generate goes on with a text.",
    "sentences": "POST /api/looks classifies a text.",
}

THREADS = torch.get_num_threads()
SMALL = 20_000_000
"""Parameters below which one thread answers sooner than several: their every step waits for all of them."""


@dataclass(frozen=True, kw_only=True)
class Shelved:
    """A system ready to work, with so many threads."""

    name: str
    version: str
    folder: Path
    kind: Kind
    system: Any
    """A Translator, a Writer or a Classifier, as its kind says."""
    sites: dict[str, SiteFacts]
    threads: int

    def at_work(self) -> Any:
        """The system, with its threads set for whatever this thread does next."""
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        return self.system


class Shelf:
    """What there is to look at."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(root.resolve() for root in roots)
        self._loaded: OrderedDict[Path, Shelved] = OrderedDict()
        self._cards: dict[str, tuple[str, ModelCard]] = {}
        self._folders: dict[str, Path] = {}
        self._scanned = float("-inf")
        self._lock, self._scanning = Lock(), Lock()

    def folders(self) -> dict[str, Path]:
        """Name -> folder of every run, with a model in it or not yet, as they were found in the last second."""
        with self._scanning:
            if time.monotonic() - self._scanned > FRESH:
                self._folders, self._scanned = self.scan(), time.monotonic()
            return self._folders

    def scan(self) -> dict[str, Path]:
        """Every run below the roots; names are as short as they can be told apart."""
        found = list(dict.fromkeys(folder for root in self.roots for folder in runs_below(root)))
        names: dict[str, Path] = {}
        for folder in found:
            parts = folder.parts
            sizes = range(1, len(parts) + 1)
            tails = ("/".join(parts[-size:]) for size in sizes)
            unique = (tail for tail in tails if sum(("/" + str(one)).endswith("/" + tail) for one in found) == 1)
            # a name that is not UTF-8 could not be told to anyone
            names[os.fsencode(next(unique, str(folder))).decode("utf-8", "replace")] = folder
        return names

    def cards(self) -> tuple[list[ModelCard], list[Problem]]:
        """Every system that can be used, by kind and year, then the examples; and what is wrong with the others."""
        cards, problems = [], []
        for name, folder in self.folders().items():
            if not Checkpoint(folder).weights.is_file():
                continue
            try:
                cards.append(self.card(name, folder))
            except Exception as error:  # whatever is wrong with one run, the others are listed
                problems.append(Problem(detail=f"{name}: {spoken(error)}"))
        order = [(kind, system) for kind, table in FAMILIES.items() for system in table]
        cards.sort(key=lambda card: (order.index((card.kind, card.system)), card.name))
        return [*cards, *(worked.card() for worked in EXAMPLES.values())], problems

    def card(self, name: str, folder: Path) -> ModelCard:
        """A system in figures; read anew when its files changed."""
        checkpoint = Checkpoint(folder)
        version = version_of(checkpoint.weights, *(checkpoint.evaluation(split) for split in SPLITS))
        kept = self._cards.get(name)
        if kept is None or kept[0] != version:
            kept = version, make_card(name, folder)
            self._cards[name] = kept
        return kept[1]

    def take(self, name: str) -> "Shelved | Worked":
        """The system itself, loaded the first time and whenever its weights were written anew; or an example."""
        if name in EXAMPLES:
            return EXAMPLES[name]
        return self.take_system(name)

    def take_kind(self, name: str, kind: Kind) -> Shelved:
        """A system of one kind."""
        if name in EXAMPLES:
            raise MissingError(f"{name} is a worked example, and {CANNOT[kind]}. Choose a system that was trained.")
        shelved = self.take_system(name)
        if shelved.kind != kind:
            raise RefusedError(f"{name} {IS[shelved.kind]}, and {CANNOT[kind]}. {USE[shelved.kind]}")
        return shelved

    def take_system(self, name: str) -> Shelved:
        """A system that was trained."""
        folders = self.folders()
        folder = folders.get(name)
        if folder is None or not Checkpoint(folder).weights.is_file():
            near = f" The nearest is {nearest(name, folders)!r}." if folders else ""
            raise MissingError(f"there is no system called {name!r} on the shelf.{near}")
        with self._lock:
            version = version_of(Checkpoint(folder).weights)
            shelved = self._loaded.get(folder)
            if shelved is None or shelved.version != version:
                system = loaded(folder)
                kind = kind_of(system.run)
                shelved = Shelved(
                    name=name,
                    version=version,
                    folder=folder,
                    kind=kind,
                    system=system,
                    sites=find_sites(system.model, kind),
                    threads=1 if count_parameters(system.model) < SMALL else THREADS,
                )
                self._loaded[folder] = shelved
            self._loaded.move_to_end(folder)
            while len(self._loaded) > MOST_LOADED:
                self._loaded.popitem(last=False)
            return shelved


def runs_below(root: Path) -> Iterator[Path]:
    """Folders with a config, the root itself or a few levels down; a link that leads outside is not followed."""
    for current, folders, files in islice(os.walk(root, followlinks=False), MOST_FOLDERS):
        folder = Path(current)
        if "config.json" in files:
            if is_sound(folder, root):
                yield folder
            folders.clear()
        elif len(folder.relative_to(root).parts) >= DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def spoken(error: Exception) -> str:
    """What an error says, in letters that can be sent; a path in it may hold others."""
    return str(error).encode("utf-8", "replace").decode()


def is_sound(folder: Path, root: Path) -> bool:
    """Whether what a run is read from are files, and lie below the root."""
    checkpoint = Checkpoint(folder)
    paths = (
        checkpoint.config,
        checkpoint.weights,
        checkpoint.tokenizer,
        checkpoint.target_tokenizer,
        checkpoint.metrics,
    )
    try:
        return all(path.is_file() and path.resolve().is_relative_to(root) for path in paths if os.path.lexists(path))
    except (OSError, RuntimeError):
        # links that lead to themselves
        return False


def version_of(*paths: Path) -> str:
    """Changes whenever one of the files does."""
    return "-".join(str(path.stat().st_mtime_ns) for path in paths if path.is_file())


def kind_of(run: Any) -> Kind:
    """What the system of a run does: its task has the name of its kind."""
    return KIND_OF[task_of(run).name]


def loaded(folder: Path) -> Any:
    """What a folder can do, or why it can do nothing."""
    try:
        system: Any = load(folder)
    except (ValueError, OSError, SafetensorError) as error:
        raise RefusedError(f"{folder.name} cannot be loaded: {error}") from None
    model = system.run.model
    if kind_of(system.run) == "translation":
        tokenizers = {"source_": system.tokenizers.source, "target_": system.tokenizers.target}
    else:
        tokenizers = {"": system.tokenizer}
    for side, tokenizer in tokenizers.items():
        known = getattr(model, f"{side}vocab_size", tokenizer.vocab_size)
        if tokenizer.vocab_size > known:
            raise RefusedError(
                f"the {side.replace('_', ' ')}tokenizer of {folder.name} has {tokenizer.vocab_size} tokens and its "
                f"model {known}: they belong to different runs."
            )
    return system


def make_card(name: str, folder: Path) -> ModelCard:
    """From the config, the header of the weights and the evaluation, without loading the model."""
    checkpoint = Checkpoint(folder)
    run = read_run(checkpoint)
    kind, entry = kind_of(run), task_of(run).models[run.model_name]
    with safe_open(checkpoint.weights, framework="pt") as weights:
        sizes = [weights.get_slice(key).get_shape() for key in weights.keys()]  # noqa: SIM118
    return ModelCard(
        name=name,
        kind=kind,
        system=run.model_name,
        title=entry.title,
        year=entry.year,
        attends=entry.attends,
        parameters=sum(math.prod(size) for size in sizes),
        recipe=run.recipe,
        languages=[language for language in getattr(run.data, "languages", ()) if language],
        tokens=run.tokenizer.kind,
        steps=steps_of(folder),
        examples=samples_of(run),
        quality=quality_or_none(checkpoint, run) if kind == "translation" else None,
        example=False,
    )
