"""One line of the table of lessons, and what a reader may set."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regard.contracts.names import check_name
from regard.studio.schema import Block, Control, Said


@dataclass(frozen=True, kw_only=True)
class LessonEntry:
    """A guided page: `build(settings)` computes its blocks, `settings` holding a value for every control."""

    title: Said
    summary: Said
    controls: tuple[Control, ...]
    build: Callable[[Mapping[str, float]], list[Block]]


def settled(controls: tuple[Control, ...], settings: Mapping[str, float]) -> dict[str, float]:
    """A value for every control: the reader's where there is one, else the control's own."""
    known = {control.name: control for control in controls}
    for name, value in settings.items():
        if not known:
            raise ValueError(f"this lesson has nothing to set, but {name}={value} was given. Leave it out.")
        check_name(name, known, "control")
        check_value(known[name], value)
    return {name: float(settings.get(name, control.value)) for name, control in known.items()}


def check_value(control: Control, value: float) -> None:
    """Refuse what the slider cannot be moved to."""
    way_out = f"Choose a number from {control.low:g} to {control.high:g}."
    if not math.isfinite(value):
        raise ValueError(f"{control.name} is {value}, which is no finite number. {way_out}")
    if not control.low <= value <= control.high:
        raise ValueError(f"{control.name} is {value:g}, which is out of range. {way_out}")
    counts = all(float(part).is_integer() for part in (control.low, control.step, control.value))
    if counts and not float(value).is_integer():
        raise ValueError(f"{control.name} is {value:g}, but it counts. {way_out.replace('number', 'whole number')}")
