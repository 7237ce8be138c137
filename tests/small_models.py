"""Tiny language models and classifiers for the registry: a repetitive text, and questions from patterns."""

from collections.abc import Mapping, Sequence
from itertools import cycle, islice, product
from pathlib import Path

from rich.console import Console

from regard._utils import override
from regard.recipes import make_run
from regard.tasks import fit

LANGUAGE = ("ngram", "lstm", "lstmn", "key_value_predict", "gpt")
SENTENCES = ("cnn", "lstmn_encoder", "structured_self_attention", "transformer_encoder")
LINES = ("the cat sat on the mat .", "the dog sat on the log .", "a bird saw the cat and the dog .")
PATTERNS = {
    "HUM": ("who wrote the {} ?", "who saw the {} ?"),
    "LOC": ("where is the {} ?", "in which city is the {} ?"),
    "NUM": ("how many {} are there ?", "when was the {} made ?"),
}
NOUNS = ("book", "river", "king", "tree", "house", "song", "ship", "road")
TEXT = "the cat sat on the log .\na bird saw"
QUESTION = "where is the king ?"
TEXTS = {**dict.fromkeys(LANGUAGE, TEXT), **dict.fromkeys(SENTENCES, QUESTION)}
WORDS = ("tokenizer.kind=words", "tokenizer.spaces=single", "tokenizer.vocab_size=100", "batch.length=16")
SMALL: dict[str, tuple[str, ...]] = {
    "ngram": (),
    "lstm": ("model.embedding_size=8", "model.hidden_size=12"),
    "lstmn": ("model.embedding_size=8", "model.hidden_size=12", "model.span=4"),
    "key_value_predict": ("model.embedding_size=8", "model.hidden_size=12", "model.window=5"),
    "gpt": (
        "model.hidden_size=16", "model.num_layers=2", "model.num_heads=2", "model.feed_forward_size=32",
        "model.context=24",
    ),
    "cnn": ("model.embedding_size=8",),
    "lstmn_encoder": ("model.embedding_size=8", "model.hidden_size=8"),
    "structured_self_attention": (
        "model.embedding_size=8", "model.hidden_size=8", "model.attention_size=6", "model.num_rows=3",
        "model.classifier_size=8",
    ),
    "transformer_encoder": ("model.hidden_size=16", "model.num_heads=2", "model.feed_forward_size=32"),
}  # fmt: skip


def train_small_models(
    root: Path, names: Sequence[str], *, steps: int, more: Mapping[str, Sequence[str]] | None = None
) -> None:
    """A folder for each of these systems; `more` are further settings by name."""
    text, questions = root.parent / "text.txt", root.parent / "questions.txt"
    text.write_text("\n".join(islice(cycle(LINES), 120)) + "\n", encoding="utf-8")
    models = [
        f"{label} {pattern.format(noun)}"
        for label, patterns in PATTERNS.items()
        for pattern, noun in product(patterns, NOUNS)
    ]
    questions.write_text("\n".join(models) + "\n", encoding="utf-8")
    for name in names:
        if name in LANGUAGE:
            # the lines of the text are few and repeated, so that their hashes hold out none of them
            run = override(make_run("text", name, data=text, steps=steps), "data.assignment=end", *WORDS)
        else:
            run = override(
                make_run("sentences", name, data=questions),
                f"training.steps={steps}",
                "training.epochs=none",
                "data.assignment=rank",
            )
        every = () if name == "ngram" else (f"training.every.validate={steps}",)
        run = override(run, *SMALL[name], *every, *(more or {}).get(name, ()))
        fit(run, root / name, console=Console(quiet=True))
