"""A model's own steps over a whole target, as its tests compare them with formulas written out by hand."""

import torch


def take_steps(model, source, target):
    """The encoded source, and every step's logits [B, T, vocab] and alignments [B, T, source]."""
    encoded = model.encode(source)
    state, logits, alignments = model.start(encoded), [], []
    for tokens in target.ids.unbind(dim=1):
        output = model.step(tokens, state, encoded)
        state = output.state
        logits.append(output.logits)
        alignments.append(output.weights)
    return encoded, torch.stack(logits, dim=1), torch.stack(alignments, dim=1)
