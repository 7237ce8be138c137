"""Fused loops on the CPU, where they are disabled by default, to compare them with the readable code."""

import pytest

from regard.fused import training


@pytest.fixture
def loops_on_cpu(monkeypatch):
    """Enable fused loops on the CPU within the test. The value lists the loops that have run."""
    monkeypatch.setattr(training, "LOOP_DEVICES", frozenset({"cpu", "cuda"}))
    return count_loops(monkeypatch)


@pytest.fixture
def loops(monkeypatch):
    """The loops that have run, as a list of class names."""
    return count_loops(monkeypatch)


def count_loops(monkeypatch):
    """Record every fused loop."""
    from regard.fused import FUSED

    calls = []

    def spy(kind):
        loop = kind.loop

        def run(self, *arguments):
            calls.append(kind.__name__)
            return loop(self, *arguments)

        monkeypatch.setattr(kind, "loop", run)

    for kind in FUSED.values():
        if kind.verb == "trains":
            spy(kind)
    return calls
