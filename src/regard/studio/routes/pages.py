"""All that is no look: the state, plain translation, runs, the timeline, lessons and experiments."""

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request

from regard.contracts import VERSION
from regard.experiments import EXPERIMENTS
from regard.studio.claims import CLAIMS
from regard.studio.errors import MissingError, RefusedError
from regard.studio.language import go_on
from regard.studio.lessons import LESSONS, lesson
from regard.studio.runs import list_runs, read_run_lines
from regard.studio.schema import (
    Experiment,
    GenerateAnswer,
    GenerateRequest,
    Lesson,
    LessonCard,
    Lines,
    Milestone,
    Name,
    RunCard,
    Said,
    State,
    TranslateAnswer,
    TranslateRequest,
)
from regard.studio.studio import Here
from regard.studio.timeline import FAMILY_OF, milestones

MOST_SETTINGS = 20
Setting = Annotated[str, Query(max_length=100)]

router = APIRouter(prefix="/api", tags=["pages"])


@router.get("/state")
def state(studio: Here) -> State:
    """What there is to look at, and what is being prepared."""
    cards, problems = studio.shelf.cards()
    preparing = None if studio.preparation is None else studio.preparation.report()
    return State(version=VERSION, boot=studio.boot, models=cards, broken=problems, preparing=preparing)


@router.post("/translate")
async def translate(asked: TranslateRequest, request: Request, studio: Here) -> TranslateAnswer:
    """A plain translation."""

    def job() -> TranslateAnswer:
        translator = studio.shelf.take_kind(asked.model, "translation").at_work()
        began = time.perf_counter()
        try:
            found = translator.predict([asked.text], beam=asked.beam)[0]
        except ValueError as error:
            raise RefusedError(str(error)) from None
        return TranslateAnswer(
            text=found.text,
            log_prob=found.log_prob,
            tokens=list(found.tokens),
            source_tokens=list(found.source_tokens),
            milliseconds=(time.perf_counter() - began) * 1e3,
        )

    return await studio.work.run(request, job)


@router.post("/generate")
async def generate(asked: GenerateRequest, request: Request, studio: Here) -> GenerateAnswer:
    """How a text goes on."""
    return await studio.work.run(request, lambda: go_on(studio.shelf.take_kind(asked.model, "language"), asked))


@router.get("/runs")
def all_runs(studio: Here) -> list[RunCard]:
    """Every run below the folders that were named."""
    return list_runs(studio.shelf)


@router.get("/runs/lines")
def lines(name: Annotated[Name, Query()], studio: Here, after: Annotated[int, Query(ge=0, le=10**9)] = 0) -> Lines:
    """What a run has measured so far."""
    return read_run_lines(studio.shelf, name, after)


@router.get("/timeline")
def timeline(studio: Here) -> list[Milestone]:
    """The history."""
    cards, _ = studio.shelf.cards()
    trained = (card for card in reversed(cards) if not card.example)
    return milestones({f"{FAMILY_OF[card.kind]}/{card.system}": card.name for card in trained})


@router.get("/lessons")
def lessons() -> list[LessonCard]:
    """Lessons, then experiments."""
    taught = [
        LessonCard(name=name, title=entry.title, summary=entry.summary, kind="lesson")
        for name, entry in LESSONS.items()
    ]
    tried = [
        LessonCard(
            name=name,
            title=Said(en=name.replace("_", " ").capitalize(), zh=CLAIMS.get(name, (name, ""))[0]),
            summary=Said(en=entry.claim, zh=CLAIMS.get(name, ("", entry.claim))[1]),
            kind="experiment",
        )
        for name, entry in EXPERIMENTS.items()
    ]
    return taught + tried


@router.get("/lessons/{name}")
def one_lesson(name: str, c: Annotated[list[Setting] | None, Query(max_length=MOST_SETTINGS)] = None) -> Lesson:
    """A lesson, computed with these settings (NAME:VALUE)."""
    settings = {}
    for setting in c or []:
        key, _, value = setting.partition(":")
        try:
            settings[key] = float(value)
        except ValueError:
            raise RefusedError(f"{setting!r} is no setting. Write NAME:NUMBER, such as width:1.5.") from None
    if name not in LESSONS:
        raise MissingError(f"there is no lesson called {name!r}. GET /api/lessons lists them.")
    try:
        return lesson(name, settings)
    except ValueError as error:
        raise RefusedError(str(error)) from None


@router.get("/experiments/{name}")
def experiment(name: str, studio: Here) -> Experiment:
    """How an experiment stands."""
    return studio.trials.report(name)


@router.post("/experiments/{name}")
def start_experiment(name: str, studio: Here) -> Experiment:
    """Put a claim to the test, here and now."""
    return studio.trials.start(name)
