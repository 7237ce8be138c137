"""Write docs/architecture.md: the packages, a line each from their docstrings, and which may import which.

python docs/scripts/architecture.py
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "regard"
PAGE = ROOT / "docs" / "architecture.md"

INTRODUCTION = """# Architecture

Written by `python docs/scripts/architecture.py` from the docstrings of the packages and from the table of imports in
`tests/test_imports.py`, which holds it.

A package imports only packages that stand on its line and what those import; every package may import `contracts` and
`_utils`. Another package is imported through its `__init__`, never past it. `cli` may import anything, and nothing
imports `cli`; what the top level composes of several packages is in `_api.py`.
"""

PATHS = """
## Where to find things
| to read | start at |
|---|---|
| one call of attention | `attention/attention.py`, then `kernels/dispatch.py` |
| a system as its paper describes it | `models/<family>/<system>.py` |
| what runs in place of a model's own code, and when | `fused/`, decided by `contracts/execution.py` |
| a training run | `recipes/`, then `tasks/fit.py`, then `training/trainer.py` |
| a command | `cli/<command>.py` |
| everything that belongs to one task | `tasks/<task>/`: run, evaluate, inspection, predictor, setup |
| a screen of the studio | `studio/routes/`, and `web/src/` |
"""


def first_line(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def allowed_imports() -> dict[str, list[str]]:
    """Package -> the packages that its line names, as the import test has them."""
    tree = ast.parse((ROOT / "tests" / "test_imports.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "NAMED":
            table: dict[str, list[str]] = ast.literal_eval(node.value)
            return table
    raise ValueError(
        "tests/test_imports.py has no table NAMED. Name the table of imports NAMED, or change this script."
    )


def page() -> str:
    """The text of docs/architecture.md."""
    imports = allowed_imports()
    packages = [
        *imports,
        *(path.parent.name for path in SOURCE.glob("*/__init__.py") if path.parent.name not in imports),
    ]
    lines = [INTRODUCTION, "| package | imports | about |", "|---|---|---|"]
    for package in packages:
        names = ", ".join(f"`{name}`" for name in imports[package]) if package in imports else "anything"
        lines.append(f"| `{package}` | {names or '-'} | {first_line(SOURCE / package / '__init__.py')} |")
        lines += [
            f"| `{path.parent.relative_to(SOURCE)}` | | {first_line(path)} |"
            for path in sorted((SOURCE / package).glob("*/__init__.py"))
        ]
    return "\n".join(lines) + "\n" + PATHS


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
