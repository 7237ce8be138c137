"""Ctrl-C and a polite kill as a wish, asked for between steps; a second one stops at once."""

import signal
import threading
from types import FrameType
from typing import Any


class Interrupts:
    """While open, SIGINT and SIGTERM are remembered; outside the main thread signals are left alone."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        """Listen."""
        if threading.current_thread() is threading.main_thread():
            self._before = {kind: signal.signal(kind, self._remember) for kind in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        """Give the signals back."""
        for kind, handler in self._before.items():
            signal.signal(kind, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
