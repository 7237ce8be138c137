"""Folders that take long to make: one process of a parallel run makes them, the others copy them."""

import os
import shutil
from pathlib import Path

from filelock import FileLock


def make_once(tmp_path_factory, name, make):
    """A folder of this process with what `make(folder)` writes, made once per run of pytest."""
    own = tmp_path_factory.mktemp(name)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        make(own)
        return own
    # the parent is shared by the processes of a run
    shared = Path(tmp_path_factory.getbasetemp()).parent / f"shared-{name}"
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            # made under another name, so that a failure leaves nothing that looks complete
            unfinished = shared.with_name(f"{shared.name}-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(shared)
    # a copy, because tests may change it
    shutil.copytree(shared, own, dirs_exist_ok=True)
    return own
