"""The tests that need a GPU, in one run whose result is recorded with its commit: `make test-gpu`.

A copy without git is told its commit: `REGARD_COMMIT=$(git rev-parse HEAD) make test-gpu`.
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
    done = subprocess.run([*command, *sys.argv[1:]], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    counts, failed = outcomes(done.stdout)
    found = {
        "machine": machine(),
        "commit": commit(),
        "command": " ".join(["python -m pytest", *command[3:], *sys.argv[1:]]),
        "counts": counts,
        "failed": failed,
    }
    if not sys.argv[1:]:
        # the record is of all of them
        (RESULTS / "gpu_tests.json").write_text(json.dumps(found, indent=2) + "\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
