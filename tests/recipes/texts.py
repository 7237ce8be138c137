"""Synthetic text and sentences, and sizes at which a model of each kind is trained in a second."""

import random
import shutil

import torch

from regard.checkpoint import RunFolder, load_tensors, save_tensors

WORDS = ["the", "a", "cat", "dog", "mat", "sat", "ran", "on", "by", "to", "in", "1", "2", "big", "small", ",", "."]
CPU = ("training.compute.device=cpu", "training.every.validate=3", "training.every.save=3", "training.every.log=3")
SMALL = ("model.embedding_size=8", "model.hidden_size=8", "batch.rows=4", "batch.length=8", "tokenizer.vocab_size=60")
SIZES = {
    "ngram": ("tokenizer.vocab_size=60",),
    "lstm": SMALL,
    "key_value_predict": (*SMALL, "model.window=4"),
    "gpt": (
        "model.hidden_size=16",
        "model.layers=2",
        "model.heads=2",
        "model.feed_forward_size=16",
        "model.context=16",
        "batch.length=16",
        "batch.rows=4",
        "tokenizer.vocab_size=60",
    ),
}


def make_text(lines):
    chance = random.Random(0)
    lines_of_text = [" ".join(chance.choices(WORDS, k=chance.randint(1, 9))) for _ in range(lines)]
    # letters of the tests' prompts, in every split of the text
    lines_of_text[::5] = ["the cat sat  on\tmats, 1 mat."] * len(lines_of_text[::5])
    return "\n".join(lines_of_text) + "\n"


TEXT = make_text(150)


def make_sentences(count):
    """The class is the animal; a third has none."""
    chance = random.Random(1)
    lines = []
    for number in range(count):
        animal = ("cat", "dog", "")[number % 3]
        words = [*chance.choices(WORDS[:2] + WORDS[4:], k=chance.randint(2, 7)), animal]
        lines.append(f"{animal.upper() or 'NONE'} {' '.join(words).strip()} {number}")
    return "\n".join(lines) + "\n"


SENTENCES = make_sentences(90)
TINY_SENTENCES = {
    "embedding_size": 8,
    "hidden_size": 8,
    "attention_size": 6,
    "num_rows": 2,
    "classifier_size": 8,
    "num_layers": 1,
    "num_heads": 2,
    "feed_forward_size": 8,
    "num_maps": 4,
}
"""Only those that are fields of a config are set."""


def spoil(folder, out):
    """A copy of a run with NaN weights."""
    shutil.copytree(folder, out)
    weights = load_tensors(RunFolder(out).weights)
    nothing = {name: torch.full_like(tensor, float("nan")) for name, tensor in weights.items()}
    save_tensors(RunFolder(out).weights, nothing, metadata={"step": 4})
