"""The tests that need a GPU, in one run whose result is recorded with its commit: `make test-gpu`.

For a copy without git, give the commit: `REGARD_COMMIT=$(git rev-parse HEAD) make test-gpu`.
"""

import json
import subprocess
import sys

from benchmarks.harness import RESULTS, commit, machine
from benchmarks.versions import outcomes


def main() -> int:
    """Run the tests and record the result; the exit status is that of pytest."""
    # the studio has no such test, and needs packages that a GPU machine may lack
    options = ["-q", "-rfE", "-p", "no:cacheprovider", "-n", "12", "--ignore=tests/studio"]
    command = [sys.executable, "-m", "pytest", "-m", "cuda", *options]
    process = subprocess.run([*command, *sys.argv[1:]], capture_output=True, text=True, check=False)
    print(process.stdout, process.stderr)
    counts, failed = outcomes(process.stdout)
    record = {
        "machine": machine(),
        "commit": commit(),
        "command": " ".join(["python -m pytest", *command[3:], *sys.argv[1:]]),
        "counts": counts,
        "failed": failed,
    }
    if not sys.argv[1:]:
        # only a run of all tests is recorded
        (RESULTS / "gpu_tests.json").write_text(json.dumps(record, indent=2) + "\n")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
