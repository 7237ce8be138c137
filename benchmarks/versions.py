"""The suite with another torch, Python or set of packages: `python -m benchmarks.versions NAME [FOLDER ...]`.

It runs with the Python that starts it, one folder of tests after the other, without the browser's. Each folder's result
is recorded under the name in results/versions.json when it is complete, so folders may be run one by one. A new commit,
or other packages, start the record again.
"""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, commit, machine

ROOT = Path(__file__).parents[1]
TOP = "."
"""The tests that lie in no folder."""
CHECKED = ("-m", "not unchecked and not browser", "--jaxtyping-packages=regard,tests.type_checker.check_types")
UNCHECKED = ("-m", "unchecked and not browser")
NO_TESTS = 5
"""What pytest returns if nothing was selected."""


def folders() -> list[str]:
    """The folders of tests, and TOP."""
    return [
        TOP,
        *sorted({path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}),
    ]


def installed_packages() -> dict[str, str]:
    """The versions of every package that pyproject.toml names and that is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    packages = {}
    for name in sorted({re.split(r"[^\w-]", requirement)[0] for requirement in requirements} - {"regard"}):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return packages


def outcomes(output: str) -> tuple[dict[str, int], list[str]]:
    """Counts by outcome, and the tests that failed, from what pytest prints with -q -rfE."""
    counts = {name: int(count) for count, name in re.findall(r"(\d+) (passed|failed|skipped|error)", output[-400:])}
    return counts, re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.M)


def run_folder(name: str) -> dict[str, Any]:
    """Counts and failures of one folder, with and without checks of shapes."""
    paths = sorted(map(str, (ROOT / "tests").glob("test_*.py"))) if name == TOP else [str(ROOT / "tests" / name)]
    counts: dict[str, int] = {}
    failed: list[str] = []
    for options in (CHECKED, UNCHECKED):
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *options, *paths]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        more, failures = outcomes(result.stdout)
        counts = {key: counts.get(key, 0) + more.get(key, 0) for key in counts | more}
        failed += failures
        if result.returncode not in (0, NO_TESTS):
            print(result.stdout, result.stderr)
            # a crash has no list of failures
            failed += [] if failures else [f"{name} {' '.join(options[:2])}: exit status {result.returncode}"]
    return {"counts": counts, "failed": failed}


def add_folder(record: dict[str, Any], name: str, result: dict[str, Any]) -> dict[str, Any]:
    """The record with one more folder, or with its newer result, and the sums over all folders."""
    parts = {**record.get("folders", {}), name: result}
    totals = {
        key: sum(part["counts"].get(key, 0) for part in parts.values()) for key in ("passed", "failed", "skipped")
    }
    return {
        **record,
        "counts": totals,
        "failed": [test for part in parts.values() for test in part["failed"]],
        "folders": parts,
    }


def main(name: str, chosen: list[str]) -> int:
    """Run the folders and record each; the exit status is 1 if a test failed."""
    path = RESULTS / "versions.json"
    environment = {"machine": machine(), "commit": commit(), "packages": installed_packages()}
    failed = False
    for folder in chosen or folders():
        result = run_folder(folder)
        print(folder, result["counts"], *result["failed"], flush=True)
        # read again: another environment may have added its results meanwhile
        records = json.loads(path.read_text()) if path.exists() else {}
        record = records.get(name, {})
        same = all(record.get(key) == environment[key] for key in ("commit", "packages"))
        records[name] = add_folder({**environment, **(record if same else {})}, folder, result)
        path.write_text(json.dumps(records, indent=2) + "\n")
        failed = failed or bool(result["failed"])
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
