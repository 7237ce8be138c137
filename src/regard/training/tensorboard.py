"""Metrics for TensorBoard, where it is installed."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """Takes each line of the metrics; give it to `train` as a listener."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ImportError(
                "TensorBoard needs the tensorboard package. Install it with: pip install tensorboard"
            ) from None
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Write a line's numbers under its step."""
        flat = {f"training/{name}": value for name, value in record.items() if isinstance(value, float)}
        flat |= {f"validation/{name}": value for name, value in record.get("validation", {}).items()}
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in flat.items() if value is not None]
        self._writer.add_event(
            self._event(wall_time=time.time(), step=record["step"], summary=self._summary(value=values))
        )
        self._writer.flush()
