"""Training setup of language models, and opening of trained folders."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from regard.checkpoint import RunFolder
from regard.data.batching import SegmentData, SegmentSettings
from regard.data.corpora import read_text
from regard.data.text import Stream, Tokenizer, make_stream
from regard.fused import fuse
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.tasks.base import (
    ExampleSource,
    Notify,
    TrainingSetup,
    corpus_of,
    fingerprints_of,
    read_splits,
    refuse_own_outputs,
    refuse_target,
)
from regard.tasks.language_modeling.evaluate import likelihood
from regard.tasks.language_modeling.predictor import TextGenerator
from regard.tasks.language_modeling.run import LanguageModelingRun
from regard.tasks.tokenizers import read_fitting, read_tokenizer
from regard.training import CropObjective, StreamObjective

EXAMPLE_WORDS = 6
EXAMPLE_CHARACTERS = 24


@dataclass(frozen=True, kw_only=True)
class LanguageModelingValidation:
    """Validation function of a language model; called during training."""

    stream: Stream
    batch: SegmentSettings
    rows: int

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Loss per token, perplexity per word and bits per character; on crops if training uses crops."""
        # losses of training and validation are comparable only if both begin without context equally often
        crops = self.batch.cut == "crops"
        values = likelihood(
            model,
            self.stream,
            rows=self.rows,
            # a carried state makes the loss independent of the length, and longer pieces are faster
            piece=self.batch.length if crops else max(self.batch.length, 64),
            fresh=crops,
        )
        return {"loss": values.loss, "perplexity": values.perplexity, "bits_per_character": values.bits_per_character}


def setup_language_modeling(
    run: LanguageModelingRun, checkpoint: RunFolder, *, resume: bool, notify: Notify
) -> TrainingSetup:
    """Read the text, train a vocabulary (if resumed, read it from the folder), and encode the text as a stream."""
    entry = LANGUAGE_MODELS[run.model_name]
    # before the text is read and encoded
    check_length(run)
    refuse_own_outputs(run)
    training, validation = run.data.read("train"), run.data.read("validation")
    lines = training.split("\n")
    # saved weights belong to the ids of the saved vocabulary
    tokenizer = read_tokenizer(checkpoint.tokenizer) if resume else Tokenizer.train(lines, run.tokenizer)
    run = replace(run, model=replace(run.model, vocab_size=tokenizer.vocab_size))
    train_stream, validation_stream = make_stream(training, tokenizer), make_stream(validation, tokenizer)
    data = SegmentData(train_stream, run.batch)
    # a short text has fewer rows or shorter ones than the settings
    if (data.order.rows, data.order.length) != (run.batch.rows, run.batch.length):
        notify(
            "train", f"{len(train_stream):,} tokens fill {data.order.rows} rows of {data.order.length} tokens per step."
        )
    model, began = None, time.perf_counter()
    # n-gram models are counted here instead of trained
    if entry.counts:
        model = cast(Any, entry.build).count(train_stream.ids, run.model)
        run = replace(run, model=model.config)
    seconds = time.perf_counter() - began
    return TrainingSetup(
        run=run,
        files={checkpoint.tokenizer.name: tokenizer.to_json()},
        data=data,
        validate=LanguageModelingValidation(stream=validation_stream, batch=run.batch, rows=run.validation.rows),
        fingerprints=fingerprints_of(run.data, {"train": training, "validation": validation}),
        example=first_words(validation, characters=tokenizer.kind == "characters"),
        # crops begin without a state, a stream carries it over
        objective=partial(CropObjective if run.batch.cut == "crops" else StreamObjective, fuse=fuse),
        label_counts=np.bincount(train_stream.ids, minlength=tokenizer.vocab_size),
        model=model,
        seconds=seconds,
    )


def open_text_generator(run: LanguageModelingRun, model: Any, checkpoint: RunFolder) -> TextGenerator:
    """A text generator from a model and the tokenizer of its folder."""
    return TextGenerator(model=model, tokenizer=read_fitting(checkpoint.tokenizer, run.model.vocab_size), run=run)


def read_texts(run: LanguageModelingRun, source: ExampleSource) -> Mapping[str, str]:
    """Text of the user's file or of splits of the corpus; by default all splits but training."""
    refuse_target(run, source)
    if source.source is not None:
        # the prefix keeps a file name from being equal to the name of a split
        return {f"file-{source.source.name}": read_text(Path(source.source))}
    return read_splits(corpus_of(run, source.folder), source.split)


def example_command(run: LanguageModelingRun, folder: str, example: str) -> str:
    """A shell command that continues the example."""
    return f"regard generate {folder} --prompt {example} --temperature 0.8 --stream"


def check_length(run: LanguageModelingRun) -> None:
    """Check that segments fit into the context of a model that has one, and that it trains on crops."""
    context = getattr(run.model, "context", None)
    if context is None:
        return
    if run.batch.cut != "crops":
        raise ValueError(
            f"{run.model_name} has a cache that grows with every token, so its state cannot be carried over a stream. "
            f"Set batch.cut=crops."
        )
    if run.batch.length > context:
        raise ValueError(
            f"batch.length is {run.batch.length}, but {run.model_name} has a context of {context} tokens. Set "
            f"model.context={run.batch.length}, or a shorter batch.length."
        )


def first_words(text: str, *, characters: bool) -> str:
    """The first words of a text, as a prompt."""
    line = next(line for line in text.split("\n") if line.strip())
    if not characters:
        return " ".join(line.split()[:EXAMPLE_WORDS])
    beginning = line[:EXAMPLE_CHARACTERS]
    # cut at the last space, if there is one
    return beginning if beginning == line else beginning.rpartition(" ")[0] or beginning
