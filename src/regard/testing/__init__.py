"""Checks that an object of one's own keeps a contract of the package; they raise AssertionError with a sentence."""

from regard.testing.tasks import check_task

__all__ = [
    "check_task",
]
