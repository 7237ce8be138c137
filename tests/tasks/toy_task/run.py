"""The run, its corpus and its model."""

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.contracts import ModelEntry
from regard.training import TrainingSettings

LETTERS, VOWELS = "abcdefghijklmnopqrstuvwxyz", "aeiou"
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class WordCorpus:
    """Random words; a split is a seed of its own."""

    count: int = 64
    longest: int = 6

    @property
    def splits(self):
        return SPLITS

    def read(self, split):
        """Words with whether they end in a vowel."""
        chance = random.Random(SPLITS.index(split))
        words = ["".join(chance.choices(LETTERS, k=chance.randint(1, self.longest))) for _ in range(self.count)]
        return [(word, "vowel" if word[-1] in VOWELS else "consonant") for word in words]


@dataclass(frozen=True, kw_only=True)
class LastLetterConfig:
    """The size of a letter's vector."""

    embedding_size: int = 8


class LastLetter(nn.Module):
    """Last letter to the logits of the two classes."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(len(LETTERS), config.embedding_size)
        self.output = nn.Linear(config.embedding_size, 2)

    def forward(self, letters):
        return self.output(self.embedding(letters))


MODELS = {
    "last_letter": ModelEntry(
        build=LastLetter,
        config=LastLetterConfig,
        year=2026,
        title="Last letter",
        formula="W embedding(x_T)",
        paper="https://example.org",
        attends=False,
    )
}


@dataclass(frozen=True, kw_only=True)
class WordRun:
    """Complete settings of a training."""

    recipe: str
    model_name: str
    model: Any
    data: WordCorpus
    training: TrainingSettings


def last_letters(words: list[str], device: torch.device | None = None) -> torch.Tensor:
    """The index of the last letter of each word."""
    return torch.tensor([LETTERS.index(word[-1]) for word in words], device=device, dtype=torch.long)
