"""What systems are trained to do: for each task its systems, its kind of run, and the way from data to a system."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.models import FAMILIES, ModelEntry
from regard.recipes.language.prepare import open_writer, prepare_language
from regard.recipes.language.run import LanguageRun
from regard.recipes.prepare import open_translator, prepare_translation
from regard.recipes.prepared import Prepared
from regard.recipes.run import Run
from regard.recipes.sentences.prepare import open_classifier, prepare_sentences
from regard.recipes.sentences.run import SentenceRun


@dataclass(frozen=True, kw_only=True)
class Task:
    """`prepare` reads a run's data; `open` makes a folder's model into something that takes text.

    `use` is the command that uses a trained folder.
    """

    models: Mapping[str, ModelEntry]
    run: type
    prepare: Callable[..., Prepared]
    open: Callable[..., Any]
    use: str


TASKS = {
    "translation": Task(
        models=FAMILIES["translation"],
        run=Run,
        prepare=prepare_translation,
        open=open_translator,
        use="translate",
    ),
    "language": Task(
        models=FAMILIES["language"],
        run=LanguageRun,
        prepare=prepare_language,
        open=open_writer,
        use="generate",
    ),
    "sentences": Task(
        models=FAMILIES["sentences"],
        run=SentenceRun,
        prepare=prepare_sentences,
        open=open_classifier,
        use="classify",
    ),
}


def task_of(run: Any) -> Task:
    """The task that a run is of."""
    return next(task for task in TASKS.values() if task.run is type(run))
