"""Overwrite guard: the old run of a folder is moved away and comes back if the new run fails before its first save."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.checkpoint.folder import RunFolder

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
"""The files that a run writes into its folder."""

OLD = ".old-run"
"""The folder that holds the old run until the new one has saved."""


def check_is_run(run_folder: RunFolder, *, is_run: Callable[[RunFolder], Any]) -> None:
    """Raise ValueError if the files in a folder are not those of a complete run.

    `is_run` raises ValueError or OSError if the folder has no readable run.
    """
    # an empty folder, or one with other files alone, has nothing to overwrite
    names = sorted(path.name for path in own_paths(run_folder.folder))
    if not names:
        return
    try:
        is_run(run_folder)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{run_folder.folder} holds {', '.join(names[:3])}, but no complete run to overwrite ({error}). "
            f"Choose another --out, or remove them."
        ) from None


@contextmanager
def overwrite_guard(run_folder: RunFolder) -> Iterator[None]:
    """Move the old run away for the block; restore it if the block raises before its first save."""
    folder, backup = run_folder.folder, run_folder.folder / OLD
    check_no_old_run(run_folder)
    # a rename within one file system copies nothing, however large the run is
    move(own_paths(folder), folder, backup)
    try:
        yield
    # KeyboardInterrupt and SystemExit too: an interrupted start must restore the old run
    except BaseException:
        # from its first save on, the new run replaces the old one
        if run_folder.checkpoints.latest() is None and not run_folder.weights.exists():
            # files of the failed run first, or renaming would meet existing names
            for path in own_paths(folder):
                remove(path)
            move(own_paths(backup), backup, folder)
        shutil.rmtree(backup, ignore_errors=True)
        raise
    shutil.rmtree(backup, ignore_errors=True)


def check_no_old_run(run_folder: RunFolder) -> None:
    """Raise ValueError if a killed process left a moved run behind."""
    backup = run_folder.folder / OLD
    if backup.exists():
        raise ValueError(
            f"{backup} holds a run that was being overwritten when the process was killed. Move its files back, or "
            f"remove it."
        )


@contextmanager
def remove_on_failure(run_folder: RunFolder, *, undo: bool) -> Iterator[None]:
    """With `undo`, remove the files of the run if the block raises before there are any results."""
    try:
        yield
    except BaseException:
        has_results = run_folder.metrics.exists() or run_folder.weights.exists() or run_folder.checkpoints.latest()
        if undo and not has_results:
            for path in own_paths(run_folder.folder):
                remove(path)
        raise


def own_paths(folder: Path) -> list[Path]:
    """The files and folders of the run in a folder."""
    # sorted, since the order of glob depends on the file system
    return [path for pattern in OWN for path in sorted(folder.glob(pattern))]


def move(paths: list[Path], old: Path, new: Path) -> None:
    """Move each path to the same relative path in another folder."""
    for path in paths:
        target = new / path.relative_to(old)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)


def remove(path: Path) -> None:
    """Remove a file, or a folder with its content."""
    # a link is removed, not the folder that it points to
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
