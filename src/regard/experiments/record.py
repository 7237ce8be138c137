"""A finding on disk: the figure as PNG and SVG, the numbers as CSV."""

import csv
import io
import os
from pathlib import Path

from regard.contracts import check_free, make_folder, write_atomic
from regard.display.figure import drawn_bytes, has_matplotlib
from regard.experiments.finding import Finding, Measured

FIGURES = ("png", "svg")


def check_record(name: str, folder: Path, *, overwrite: bool) -> None:
    """Refuse before the work what would be refused after it."""
    make_folder(folder)
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} may not be written to. Choose another folder.")
    for kind in (*FIGURES, "csv"):
        check_free(folder / f"{name}.{kind}", overwrite=overwrite)


def record(finding: Finding, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write every kind, whole or not at all, and say where; without matplotlib there is no figure."""
    check_record(finding.name, folder, overwrite=overwrite)
    contents = drawn_bytes(finding.draw, FIGURES) if has_matplotlib() else {}
    contents |= {"csv": table_bytes(finding)}
    paths = {kind: folder / f"{finding.name}.{kind}" for kind in contents}
    for kind, path in paths.items():
        write_atomic(path, contents[kind], overwrite=overwrite)
    return list(paths.values())


def table_bytes(finding: Finding) -> bytes:
    """All digits; what was measured several times has a column for its spread."""
    rows = []
    for row in finding.rows:
        cells: dict[str, object] = {}
        for column, cell in row.items():
            cells[column] = cell.mean if isinstance(cell, Measured) else cell
            if any(isinstance(other[column], Measured) for other in finding.rows):
                cells[f"{column} spread"] = cell.spread if isinstance(cell, Measured) else ""
        rows.append(cells)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
