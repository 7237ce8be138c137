"""The folder of the gold alignments, if present."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def word_alignment():
    data = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
    folder = data / "word-alignment"
    if not folder.is_dir():
        pytest.skip(f"needs the gold alignments, and {folder} is not there; name the data folder in REGARD_DATA")
    return folder
