"""A trained model that reads a text and goes on with it.

writer = regard.load("runs/gpt")
print(writer.likelihood("To be, or not to be").perplexity)
"""

from dataclasses import dataclass
from typing import Any

import torch

from regard.data import Tokenizer
from regard.data.streams import make_stream
from regard.evaluation.likelihood import Likelihood
from regard.evaluation.spans import SpanMass
from regard.recipes.language.measure import likelihood, spans
from regard.recipes.language.run import LanguageRun


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A model with its tokenizer; `config` is the run that made it."""

    model: Any
    tokenizer: Tokenizer
    config: LanguageRun

    def likelihood(self, text: str) -> Likelihood:
        """How likely the model finds a text, every token given all before it."""
        return likelihood(self.model, make_stream(text, self.tokenizer))

    def spans(self, text: str) -> dict[str, SpanMass]:
        """How far back every attention of the model reaches in the first 4,096 tokens of a text, by module path."""
        return spans(self.model, make_stream(text, self.tokenizer))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        tensor = next(iter(self.model.state_dict().values()))
        return torch.device(tensor.device)
