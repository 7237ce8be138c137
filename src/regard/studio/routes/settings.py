"""Settings in a query string, c=NAME:NUMBER once per setting: of a lesson or of an experiment."""

from typing import Annotated

from fastapi import Depends, Query

from regard.serving import RefusedError

# bounded, because a query string may have any length
MAX_SETTINGS = 20
Setting = Annotated[str, Query(max_length=100)]


def parse_settings(c: Annotated[list[Setting] | None, Query(max_length=MAX_SETTINGS)] = None) -> dict[str, float]:
    """The settings by name; whether they are known and in range is checked where they are used."""
    settings = {}
    for setting in c or []:
        key, _, value = setting.partition(":")
        # float() accepts nan and inf, which are refused later with the name of the control
        try:
            settings[key] = float(value)
        except ValueError:
            raise RefusedError(f"{setting!r} is not a setting. Write NAME:NUMBER, such as width:1.5.") from None
    return settings


Settings = Annotated[dict[str, float], Depends(parse_settings)]
