"""What the studio is made of while it runs."""

import secrets
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from regard.studio.kept import Looks
from regard.studio.prepare import Preparation
from regard.studio.shelf import Shelf
from regard.studio.trials import Trials
from regard.studio.work import Work

MOST_WAITING = 32


@dataclass(kw_only=True)
class Studio:
    """The shelf and the looks, the queue, and what trains in the background."""

    shelf: Shelf
    preparation: Preparation | None = None
    looks: Looks = field(default_factory=Looks)
    trials: Trials = field(default_factory=Trials)
    work: Work = field(default_factory=lambda: Work(MOST_WAITING))
    boot: str = field(default_factory=lambda: secrets.token_hex(8))

    def close(self) -> None:
        """End what runs beside."""
        self.work.close()
        self.trials.close()
        if self.preparation is not None:
            self.preparation.stop()


def find_studio(request: Request) -> Studio:
    """The one that this application was made for."""
    studio: Studio = request.app.state.studio
    return studio


Here = Annotated[Studio, Depends(find_studio)]
