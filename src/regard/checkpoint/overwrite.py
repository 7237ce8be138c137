"""An old run set aside while a new one begins in its folder: until that has something to show, nothing is lost."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.checkpoint.folder import Checkpoint

OWN = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer.target.json",
    "README.md",
    "metrics.jsonl",
    "evaluation-*.json",
    "training/step-*",
    "training/weights",
    "tensorboard/events.out.tfevents.*",
)
"""What a run writes into its folder."""

OLD = ".old-run"
"""Where the run that is written over lies meanwhile."""


def check_is_run(checkpoint: Checkpoint, *, is_run: Callable[[Checkpoint], Any]) -> None:
    """Refuse to write over what no run wrote; `is_run` raises ValueError or OSError for a folder that holds none."""
    found = sorted(path.name for path in own_paths(checkpoint.folder))
    if not found:
        return
    try:
        is_run(checkpoint)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{checkpoint.folder} holds {', '.join(found[:3])}, but no whole run that could be written over ({error}). "
            f"Choose another --out, or remove them."
        ) from None


@contextmanager
def set_aside(checkpoint: Checkpoint) -> Iterator[None]:
    """Within, the folder is free of the run that was in it; it comes back if the new one ends before its first save."""
    folder, aside = checkpoint.folder, checkpoint.folder / OLD
    check_aside(checkpoint)
    move(own_paths(folder), folder, aside)
    try:
        yield
    except BaseException:
        if checkpoint.points.latest() is None and not checkpoint.weights.exists():
            for path in own_paths(folder):
                remove(path)
            move(own_paths(aside), aside, folder)
        shutil.rmtree(aside, ignore_errors=True)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def check_aside(checkpoint: Checkpoint) -> None:
    """Refuse a folder in which a run was left aside."""
    aside = checkpoint.folder / OLD
    if aside.exists():
        raise ValueError(
            f"{aside} holds a run that was being written over when that was stopped. Move its files back, or remove it."
        )


@contextmanager
def beginning(checkpoint: Checkpoint, *, undo: bool) -> Iterator[None]:
    """Within, a run begins or is resumed; with `undo`, one that fails before it learned anything leaves nothing."""
    try:
        yield
    except BaseException:
        learned = checkpoint.metrics.exists() or checkpoint.weights.exists() or checkpoint.points.latest()
        if undo and not learned:
            for path in own_paths(checkpoint.folder):
                remove(path)
        raise


def own_paths(folder: Path) -> list[Path]:
    """The files and folders of the run in a folder."""
    return [path for pattern in OWN for path in sorted(folder.glob(pattern))]


def move(paths: list[Path], old: Path, new: Path) -> None:
    """Each to the same place under another folder."""
    for path in paths:
        there = new / path.relative_to(old)
        there.parent.mkdir(parents=True, exist_ok=True)
        path.rename(there)


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
