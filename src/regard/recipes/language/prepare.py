"""Language modelling as a task: a text to a stream of segments, and a folder to a writer."""

import time
from dataclasses import replace
from typing import Any, cast

from regard.data import Tokenizer
from regard.data.segments import SegmentData
from regard.data.streams import make_stream
from regard.models import LANGUAGE_MODELS
from regard.recipes.language.measure import LanguageValidationMeasure
from regard.recipes.language.run import LanguageRun
from regard.recipes.language.writer import Writer
from regard.recipes.prepared import Prepared, Say
from regard.recipes.vocabulary import read_fitting, read_tokenizer
from regard.storage import Checkpoint
from regard.training import CropObjective, StreamObjective

EXAMPLE_WORDS = 6
EXAMPLE_CHARACTERS = 24


def prepare_language(run: LanguageRun, checkpoint: Checkpoint, *, going_on: bool, say: Say) -> Prepared:
    """Read the text, learn a vocabulary (or go on with that of the folder), and lay it out as a stream."""
    entry = LANGUAGE_MODELS[run.model_name]
    check_length(run)
    training, validation = run.data.read("train"), run.data.read("validation")
    if going_on:
        tokenizer = read_tokenizer(checkpoint.tokenizer)
    else:
        tokenizer = Tokenizer.train(training.split("\n"), run.tokenizer)
    run = replace(run, model=replace(run.model, vocab_size=tokenizer.vocab_size))
    learned, held_out = make_stream(training, tokenizer), make_stream(validation, tokenizer)
    data = SegmentData(learned, run.batch)
    if (data.order.rows, data.order.length) != (run.batch.rows, run.batch.length):
        say("train", f"{len(learned):,} tokens fill {data.order.rows} rows of {data.order.length} tokens a step.")
    model, began = None, time.perf_counter()
    if entry.counts:
        model = cast(Any, entry.build).count(learned.ids, run.model)
        run = replace(run, model=model.config)
    seconds = time.perf_counter() - began
    return Prepared(
        run=run,
        files={checkpoint.tokenizer.name: tokenizer.to_json()},
        data=data,
        validate=LanguageValidationMeasure(stream=held_out, batch=run.batch, rows=run.validation.rows),
        example=first_words(validation, characters=tokenizer.kind == "characters"),
        objective=CropObjective if run.batch.cut == "crops" else StreamObjective,
        counted=model,
        seconds=seconds,
    )


def open_writer(checkpoint: Checkpoint, run: LanguageRun, model: Any) -> Writer:
    """A writer out of a folder and the model in it."""
    return Writer(model=model, tokenizer=read_fitting(checkpoint.tokenizer, run.model.vocab_size), config=run)


def check_length(run: LanguageRun) -> None:
    """A segment fits into the context of a model that has one, and only models that learn from crops have one."""
    context = getattr(run.model, "context", None)
    if context is None:
        return
    if run.batch.cut != "crops":
        raise ValueError(
            f"{run.model_name} keeps what it read in a cache that grows, which a stream would carry on and on. "
            f"Set batch.cut=crops."
        )
    if run.batch.length > context:
        raise ValueError(
            f"batch.length is {run.batch.length}, but {run.model_name} looks back {context} tokens. Set "
            f"model.context={run.batch.length}, or a shorter batch.length."
        )


def first_words(text: str, *, characters: bool) -> str:
    """The beginning of a text, as a prompt."""
    line = next(line for line in text.split("\n") if line.strip())
    if not characters:
        return " ".join(line.split()[:EXAMPLE_WORDS])
    beginning = line[:EXAMPLE_CHARACTERS]
    return beginning if beginning == line else beginning.rpartition(" ")[0] or beginning
