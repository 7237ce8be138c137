"""Routes other than inspections and experiments: state, predictions, runs, timeline and lessons."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from regard._utils import VERSION
from regard.experiments import EXPERIMENTS
from regard.serving import MissingError, refusing
from regard.studio import inspections
from regard.studio.lessons import LESSONS, lesson
from regard.studio.routes.settings import Settings
from regard.studio.runs import list_runs, read_run_lines
from regard.studio.schema.base import LocalizedText, Name
from regard.studio.schema.models import GenerateAnswer, GenerateRequest, PredictAnswer, PredictRequest, State
from regard.studio.schema.pages import LessonCard, LessonPage, MetricsLines, Milestone, RunCard
from regard.studio.state import CurrentStudio
from regard.studio.timeline import milestones

router = APIRouter(prefix="/api", tags=["pages"])


@router.get("/state")
def state(studio: CurrentStudio) -> State:
    """The models, and the demo in training."""
    cards, problems = studio.registry.cards()
    progress = None if studio.demo_training is None else studio.demo_training.report()
    return State(version=VERSION, server_id=studio.server_id, models=cards, problems=problems, demo_training=progress)


@router.post("/predict")
async def predict(body: PredictRequest, request: Request, studio: CurrentStudio) -> PredictAnswer:
    """The output for one input, without attention."""
    # in the job, because loading takes seconds
    return await studio.jobs.run(request, lambda: inspections.predict_one(studio.registry.load(body.model), body))


@router.post("/generate")
async def generate(body: GenerateRequest, request: Request, studio: CurrentStudio) -> GenerateAnswer:
    """Text generated token by token, by a model that streams."""
    return await studio.jobs.run(request, lambda: inspections.generate(studio.registry.load(body.model), body))


@router.delete("/jobs/{name}", status_code=204)
async def cancel(name: str, studio: CurrentStudio) -> None:
    """Cancel the request that was sent with this name in its header X-Job; closing its connection does the same."""
    studio.jobs.cancel(name)


@router.get("/runs")
def all_runs(studio: CurrentStudio) -> list[RunCard]:
    """Every run below the studio's folders."""
    return list_runs(studio.registry)


@router.get("/runs/lines")
def lines(
    name: Annotated[Name, Query()], studio: CurrentStudio, after: Annotated[int, Query(ge=0, le=2**53 - 1)] = 0
) -> MetricsLines:
    """The metrics of a run so far, from byte `after` on."""
    return read_run_lines(studio.registry, name, after)


@router.get("/timeline")
def timeline(studio: CurrentStudio) -> list[Milestone]:
    """The history."""
    cards, _ = studio.registry.checkpoint_cards()
    # reversed: of several models of one system the first card remains
    return milestones({f"{card.task}/{card.system}": card.name for card in reversed(cards)})


@router.get("/lessons")
def lessons() -> list[LessonCard]:
    """Lessons, then experiments."""
    lesson_cards = [
        LessonCard(name=name, title=entry.title, summary=entry.summary, kind="lesson", number=None)
        for name, entry in LESSONS.items()
    ]
    experiment_cards = [
        LessonCard(
            name=name,
            title=LocalizedText.of(entry.title),
            summary=LocalizedText.of(entry.claim),
            kind="experiment",
            number=entry.number,
        )
        for name, entry in EXPERIMENTS.items()
    ]
    return lesson_cards + experiment_cards


@router.get("/lessons/{name}")
def one_lesson(name: str, settings: Settings) -> LessonPage:
    """A lesson computed with these settings."""
    if name not in LESSONS:
        raise MissingError(f"there is no lesson called {name!r}. GET /api/lessons lists them.")
    with refusing():
        return lesson(name, settings)
