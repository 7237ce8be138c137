"""The largest amount of memory that a computation holds at once, from the allocations that torch's profiler records."""

import json
from collections.abc import Callable, Hashable, Mapping
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from regard.contracts import leaves

Name = TypeVar("Name", bound=Hashable)


def peak_bytes(candidates: Mapping[Name, Callable[[], object]]) -> dict[Name, int]:
    """Bytes that every candidate allocates on the CPU at its peak, in addition to what exists before it."""
    # one session for all, since starting one takes longer than most computations
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as session:
        for number, compute in enumerate(candidates.values()):
            with record_function(f"candidate {number}"):
                compute()
    with TemporaryDirectory() as folder:
        # the trace is the only public form that has every single allocation
        path = Path(folder) / "trace.json"
        session.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return {name: peak_within(events, f"candidate {number}") for number, name in enumerate(candidates)}


def peak_within(events: list[dict[str, Any]], name: str) -> int:
    """The largest sum of the allocations so far during the event of this name."""
    (span,) = (event for event in events if event.get("name") == name and event.get("cat") == "user_annotation")
    begin, end = span["ts"], span["ts"] + span["dur"]
    changes = sorted(
        (event["ts"], event["args"]["Bytes"])
        for event in events
        # the result is freed after the event, which the sum therefore contains
        if event.get("name") == "[memory]" and begin <= event["ts"] <= end
    )
    return max(accumulate(change for _, change in changes), default=0)


def state_bytes(state: Any) -> int:
    """Bytes of the tensors of a state, as they are stored."""
    tensors: list[torch.Tensor] = leaves(state)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
