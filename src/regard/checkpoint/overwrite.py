"""Overwrite guard: the old run of a folder is moved away and comes back if the new run fails before its first save.

A process killed with kill -9 restores nothing. The next command does, from what is in the folder; config.json, which is
moved first in both directions and written last by a new run, tells the cases apart:

    config.json of the old run | of the new run | the process was killed         | repair
    in the folder              | -              | while the old run was restored | move the rest back
    moved away                 | none           | while the old run was moved    | move it back
    moved away                 | in the folder  | before the first save          | remove the new run, move it back
    moved away                 | in the folder  | after the first save           | remove the old run
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard._utils import LOCK, lock_if_free, remove_folder
from regard.checkpoint.folder import OLD, OWN_FILES, RunFolder

OWN = (*OWN_FILES, "training/step-*", "training/weights", "tensorboard/events.out.tfevents.*")
"""The files and folders that a run writes into its folder; config.json is the first."""


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
    paths = own_paths(folder)
    if not paths:
        with remove_on_failure(run_folder, undo=True):
            yield
        return
    # a rename within one file system copies nothing, however large the run is
    move(paths, folder, backup)
    try:
        yield
    # KeyboardInterrupt and SystemExit too: an interrupted start must restore the old run
    except BaseException:
        restore_old_run(run_folder)
        raise
    remove_folder(backup)


def restore_old_run(run_folder: RunFolder) -> str:
    """Move the old run back, unless the new one has saved, and return a sentence about it."""
    folder, backup = run_folder.folder, run_folder.folder / OLD
    was_moved, has_new = (backup / run_folder.config.name).exists(), run_folder.config.exists()
    has_saved = run_folder.weights.exists() or run_folder.checkpoints.latest() is not None
    if was_moved and has_new and has_saved:
        # from its first save on, the new run replaces the old one
        remove_folder(backup)
        return f"{folder}: removed the old run, which the new one had replaced when its process was killed."
    if was_moved and has_new:
        # the config last: without it, the files that are left would be taken for those of the old run
        for path in reversed(own_paths(folder)):
            remove(path)
    for path in own_paths(backup):
        target = folder / path.relative_to(backup)
        # a start of the new run that was killed before its config; a file of the old run has not been moved yet
        if os.path.lexists(target):
            remove(target)
        move([path], backup, folder)
    # all of its files are back
    remove_folder(backup)
    return f"{folder}: restored the run that was being overwritten when the process was killed."


def repair(run_folder: RunFolder) -> str | None:
    """Repair a folder that a killed process left in the middle of its start, and return a sentence about it.

    The folder stays as it is while another process trains into it.
    """
    folder = run_folder.folder
    if not (has_old_run(run_folder) or _is_killed_start(run_folder)):
        return None
    with lock_if_free(folder) as is_free:
        if is_free and has_old_run(run_folder):
            return restore_old_run(run_folder)
        # tested again, since the process that held the lock may have written its config
        if is_free and _is_killed_start(run_folder):
            run_folder.tidy()
            for path in own_paths(folder):
                remove(path)
            return f"{folder}: removed the files of a training that was killed before its start was complete."
    return None


def has_old_run(run_folder: RunFolder) -> bool:
    """True if a run of the folder is being overwritten, or was when its process was killed."""
    return (run_folder.folder / OLD).is_dir()


def _is_killed_start(run_folder: RunFolder) -> bool:
    """True if the folder has tokenizers or scratch of a start without a config, and the lock of their writer."""
    if run_folder.config.exists() or not (run_folder.folder / LOCK).exists():
        return False
    own = set(own_paths(run_folder.folder))
    return own <= {run_folder.tokenizer, run_folder.target_tokenizer} and bool(own or run_folder.scratch())


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
