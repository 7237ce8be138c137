"""The objects of a running studio."""

import secrets
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from regard.serving import JobQueue
from regard.studio.demo_training import DemoTraining
from regard.studio.experiment_jobs import ExperimentJobs
from regard.studio.inspection_cache import InspectionCache
from regard.studio.model_registry import ModelRegistry
from regard.studio.worked_examples import add_examples

# further requests get status 503
MAX_WAITING = 32


@dataclass(kw_only=True)
class Studio:
    """Models, inspections, the job queue and background jobs."""

    registry: ModelRegistry
    demo_training: DemoTraining | None = None
    inspections: InspectionCache = field(default_factory=InspectionCache)
    experiments: ExperimentJobs = field(default_factory=ExperimentJobs)
    jobs: JobQueue = field(default_factory=lambda: JobQueue(MAX_WAITING))
    # another one after each start, so that the page recognises a restart
    server_id: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        add_examples(self.registry)

    def close(self) -> None:
        """End the background jobs."""
        # first the queue: no job may start while the others end
        self.jobs.close()
        self.experiments.close()
        if self.demo_training is not None:
            self.demo_training.stop()


def studio_of(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


CurrentStudio = Annotated[Studio, Depends(studio_of)]
