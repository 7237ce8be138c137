"""Tiny language models and classifiers for the shelf: a text that repeats itself, and questions made of patterns."""

from itertools import cycle, islice, product
from pathlib import Path

from rich.console import Console

from regard.recipes import fit, make_run, override

LINES = ("the cat sat on the mat .", "the dog sat on the log .", "a bird saw the cat and the dog .")
PATTERNS = {
    "HUM": ("who wrote the {} ?", "who saw the {} ?"),
    "LOC": ("where is the {} ?", "in which city is the {} ?"),
    "NUM": ("how many {} are there ?", "when was the {} made ?"),
}
NOUNS = ("book", "river", "king", "tree", "house", "song", "ship", "road")
SMALL: dict[str, tuple[str, ...]] = {
    "gpt": (
        "model.hidden_size=16", "model.num_layers=2", "model.num_heads=2", "model.feed_forward_size=32",
        "model.context=24", "batch.length=16",
    ),
    "lstm": ("model.embedding_size=8", "model.hidden_size=12", "batch.length=16"),
    "lstmn": ("model.embedding_size=8", "model.hidden_size=12", "model.span=4", "batch.length=16"),
    "key_value_predict": ("model.embedding_size=8", "model.hidden_size=12", "model.window=5", "batch.length=16"),
    "ngram": (),
    "structured_self_attention": (
        "model.embedding_size=8", "model.hidden_size=8", "model.attention_size=6", "model.num_rows=3",
        "model.classifier_size=8",
    ),
    "transformer_encoder": ("model.hidden_size=16", "model.num_heads=2", "model.feed_forward_size=32"),
    "lstmn_encoder": ("model.embedding_size=8", "model.hidden_size=8"),
    "cnn": ("model.embedding_size=8",),
}  # fmt: skip
TEXT = "the cat sat on the log .\na bird"
QUESTION = "where is the king ?"


def train_readers(root: Path, names: tuple[str, ...], *, steps: int, **more: tuple[str, ...]) -> None:
    """A folder for each of these systems; `more` are further settings by name."""
    text, questions = root.parent / "text.txt", root.parent / "questions.txt"
    text.write_text("\n".join(islice(cycle(LINES), 120)) + "\n", encoding="utf-8")
    made = [
        f"{label} {pattern.format(noun)}" for (label, own), noun in product(PATTERNS.items(), NOUNS) for pattern in own
    ]
    questions.write_text("\n".join(made) + "\n", encoding="utf-8")
    for name in names:
        run = (
            make_run("text", name, data=text, steps=steps)
            if name in LANGUAGE
            else make_run("sentences", name, data=questions)
        )
        counted = name == "ngram"
        length = () if counted else (f"training.every.validate={steps}",)
        words = (
            ("tokenizer.kind=words", "tokenizer.spaces=single", "tokenizer.vocab_size=100") if name in LANGUAGE else ()
        )
        epochs = () if name in LANGUAGE else (f"training.steps={steps}", "training.epochs=null")
        run = override(run, *words, *SMALL[name], *epochs, *length, *more.get(name, ()))
        fit(run, root / name, console=Console(quiet=True))


LANGUAGE = ("gpt", "lstm", "lstmn", "key_value_predict", "ngram")
SENTENCES = ("structured_self_attention", "transformer_encoder", "lstmn_encoder", "cnn")
