"""Cancellation of long work between two steps: a loop asks, and whoever started the work decides.

with cancellable(event.is_set):
    predictor.predict(..)     # raises CancelledError between two steps once the event is set
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CancelledError(Exception):
    """The work was cancelled; no part of its result exists."""


# a context variable and no global: work in another thread is not cancelled
_is_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("regard_is_cancelled", default=None)


@contextmanager
def cancellable(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Within, `check_cancelled` raises CancelledError as soon as `is_cancelled()` is true."""
    token = _is_cancelled.set(is_cancelled)
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def check_cancelled() -> None:
    """Raise CancelledError if the work around the call was cancelled; every decode loop calls it at each step."""
    is_cancelled = _is_cancelled.get()
    if is_cancelled is not None and is_cancelled():
        raise CancelledError("the work was cancelled.")
