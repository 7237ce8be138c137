"""Formulas that several tests of language models share: one row, word by word."""

import torch
from torch import nn

VOCAB = 11
ROWS = [[5, 6, 7, 2, 9, 10, 4, 4], [2, 4, 10, 4, 7, 8, 5, 2]]
TOKENS = torch.tensor(ROWS)


def randomised(model):
    """Weights so large that every term matters."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def lstm_outputs(words, ids):
    """The top layer's output after every word of one row."""
    lstm, size = words.lstm, words.lstm.hidden_size
    hidden = [torch.zeros(size, dtype=torch.float64)] * lstm.num_layers
    cell, outputs = list(hidden), []
    for token in ids:
        inputs = words.embedding.weight[token]
        for layer in range(lstm.num_layers):
            parts = (getattr(lstm, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            from_input, from_state, input_bias, state_bias = parts
            input_gate, forget_gate, candidate, output_gate = (
                from_input @ inputs + input_bias + from_state @ hidden[layer] + state_bias
            ).chunk(4)
            cell[layer] = torch.sigmoid(forget_gate) * cell[layer] + torch.sigmoid(input_gate) * torch.tanh(candidate)
            inputs = hidden[layer] = torch.sigmoid(output_gate) * torch.tanh(cell[layer])
        outputs.append(inputs)
    return outputs


def read_out(model, features):
    """W h + b at every position."""
    return torch.stack([model.readout.weight @ feature + model.readout.bias for feature in features])
