"""Translation as a task: pairs of sentences to examples, and a folder to a translator."""

from typing import Any

from regard.data import Tokenizers, make_examples
from regard.models import MODELS
from regard.recipes.measure import Validation
from regard.recipes.prepared import ExampleData, Prepared, Say
from regard.recipes.run import Run, fit_to
from regard.recipes.translator import LONGEST_SOURCE, Translator
from regard.recipes.vocabulary import read_tokenizer
from regard.storage import Checkpoint


def prepare_translation(run: Run, checkpoint: Checkpoint, *, going_on: bool, say: Say) -> Prepared:
    """Read the pairs, learn a vocabulary (or go on with that of the folder), and encode them."""
    check_packed(run)
    training, validation = run.data.read("train"), run.data.read("validation")
    for split, report in (("train", training.report), ("validation", validation.report)):
        say(split, report)
    if going_on:
        tokenizers = read_tokenizers(checkpoint, run)
    else:
        tokenizers = Tokenizers.train(training, run.tokenizer, joint=run.tokenizer.joint)
    run = fit_to(run, tokenizers)
    examples = make_examples(training, tokenizers, run.batch.max_length)
    held_out = make_examples(validation, tokenizers, LONGEST_SOURCE - 1)
    say("train", examples.report)
    say("validation", held_out.report)
    files = {checkpoint.tokenizer.name: tokenizers.source.to_json()}
    if not tokenizers.joint:
        files[checkpoint.target_tokenizer.name] = tokenizers.target.to_json()
    return Prepared(
        run=run,
        files=files,
        data=ExampleData(examples, run.batch),
        validate=Validation(tokenizers=tokenizers, config=run, pairs=validation, examples=held_out),
        example=validation[0].source,
    )


def open_translator(checkpoint: Checkpoint, run: Run, model: Any) -> Translator:
    """A translator out of a folder and the model in it."""
    return Translator(model=model, tokenizers=read_tokenizers(checkpoint, run), config=run)


def read_tokenizers(checkpoint: Checkpoint, run: Run) -> Tokenizers:
    """The tokenizers of a folder."""
    source = read_tokenizer(checkpoint.tokenizer)
    joint = run.tokenizer.joint
    return Tokenizers(source, source if joint else read_tokenizer(checkpoint.target_tokenizer), joint)


def check_packed(run: Run) -> None:
    """Packed batches are for systems that read them."""
    if run.batch.packed and not MODELS[run.model_name].packs:
        raise ValueError(
            f"{run.model_name} reads padded batches only. Leave out batch.packed=true, or train a "
            f"{' or '.join(name for name, entry in MODELS.items() if entry.packs)}."
        )
