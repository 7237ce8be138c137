"""Routes of the experiments; a run is identified by the name of the experiment and its settings."""

from fastapi import APIRouter

from regard.studio.routes.settings import Settings
from regard.studio.schema.experiments import ExperimentReport
from regard.studio.state import CurrentStudio

router = APIRouter(prefix="/api/experiments", tags=["experiments"])


@router.get("/{name}")
def experiment(name: str, settings: Settings, studio: CurrentStudio) -> ExperimentReport:
    """An experiment, its run with these settings, and the list of its runs."""
    return studio.experiments.report(name, settings)


@router.post("/{name}")
def start_experiment(name: str, settings: Settings, studio: CurrentStudio) -> ExperimentReport:
    """Run an experiment with these settings; settings that are left out have their default."""
    return studio.experiments.start(name, settings)


@router.delete("/{name}")
def cancel_experiment(name: str, settings: Settings, studio: CurrentStudio) -> ExperimentReport:
    """Cancel the run with these settings; it ends at its next step."""
    return studio.experiments.cancel(name, settings)
