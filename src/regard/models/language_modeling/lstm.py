"""LSTM language model: deep LSTMs with dropout wherever nothing recurs.

    h^0_t = D(x_t),   h^l_t = LSTM(D(h^{l-1}_t), h^l_{t-1}),   p(w_{t+1}) = softmax(W D(h^N_t) + b),   D: dropout

Zaremba, Sutskever and Vinyals 2014, section 3. https://arxiv.org/abs/1409.2329
`tied` reads out with the embedding's own table, without bias: Press and Wolf 2017. https://arxiv.org/abs/1608.05859

Departs from the paper: torch's LSTM has two biases a gate where one would do.
"""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor, nn

from regard.contracts import ModelOutput
from regard.layers import LSTMState, Readout
from regard.models.language_modeling.base import Reader, WordLSTM, draw_uniform, open_forget_gates

BOUND = 0.05
"""Of the initial weights (section 4.1, medium)."""


@dataclass(frozen=True, kw_only=True)
class LSTMLanguageConfig:
    """Defaults are the published sizes of the medium model (section 4.1); `forget_bias` is where forget gates begin."""

    vocab_size: int = 10_000
    embedding_size: int = 650
    hidden_size: int = 650
    num_layers: int = 2
    tied: bool = False
    forget_bias: float = 0.0
    dropout: float = 0.5


class LSTMLanguageModel(Reader):
    """All it knows of the text is in the states of its layers."""

    def __init__(self, config: LSTMLanguageConfig) -> None:
        super().__init__()
        self.config = config
        self.words = WordLSTM(
            vocab_size=config.vocab_size,
            embedding_size=config.embedding_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_layers,
            dropout=config.dropout,
        )
        self.dropout = nn.Dropout(config.dropout)
        table = self.words.embedding.weight if config.tied else None
        self.readout = Readout(hidden_size=config.hidden_size, vocab_size=config.vocab_size, tied=table)
        draw_uniform(self, BOUND)
        if config.forget_bias:
            open_forget_gates(self.words.lstm, config.forget_bias)

    def start(self, num_rows: int) -> LSTMState:
        """Zeros in every layer."""
        return self.words.start(num_rows)

    def read(self, tokens: Int[Tensor, "B T"], state: LSTMState) -> ModelOutput:
        """The whole text through torch's own loop."""
        run = self.words(tokens, state)
        return ModelOutput(features=self.dropout(run.outputs), state=run.state)
