"""Fused loops on the CPU, where users do not get them, to hold them equal to the readable code."""

import pytest

from regard.fused import training


@pytest.fixture
def loops_on_cpu(monkeypatch):
    """Within the test, a CPU is no reason against a fused loop. The value counts the loops that have run."""
    monkeypatch.setattr(training, "LOOP_DEVICES", frozenset({"cpu", "cuda"}))
    return count_loops(monkeypatch)


@pytest.fixture
def loops(monkeypatch):
    """The loops that have run, as a list of class names."""
    return count_loops(monkeypatch)


def count_loops(monkeypatch):
    """Spies on every fused loop."""
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
