"""The same question under two settings of glibc's allocator, each in a separate process.

As it comes, glibc gives large temporaries back to the system when they are freed, and the next ones are paged in again;
with its thresholds raised it keeps them. That weighs on every library that runs on a CPU, so it is set for all alike.
"""

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.harness import Report, Timing, command

LARGEST = 1 << 32
ALLOCATORS: dict[str, dict[str, str]] = {
    "glibc as it comes": {},
    "glibc keeps large blocks": {
        "GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={LARGEST}:glibc.malloc.trim_threshold={LARGEST}"
    },
}


def turns(usual: int) -> int:
    """How often each candidate runs; REGARD_BENCHMARK_TURNS overrules it."""
    return int(os.environ.get("REGARD_BENCHMARK_TURNS", usual))


def ask_elsewhere(function: str, environment: dict[str, str], **settings: Any) -> Report:
    """The report of `benchmarks.<module>.<function>(**settings)` from a fresh process with this environment."""
    module, name = f"benchmarks.{function}".rsplit(".", 1)
    program = (
        f"import json; from dataclasses import asdict; from {module} import {name}; "
        f"print(json.dumps(asdict({name}(**{settings!r}))))"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
    )
    record = json.loads(process.stdout.splitlines()[-1])
    timings = {candidate: Timing(**values) for candidate, values in record.pop("timings").items()}
    return Report(**(record | {"timings": timings, "command": command()}))
