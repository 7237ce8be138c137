"""Structured self-attention equals its formula, row by row."""

import pytest
import torch
from torch import nn

from regard.attention.trace import trace
from regard.contracts import PaddedTokens
from regard.models.text_classification import StructuredSelfAttention, StructuredSelfAttentionConfig

SIZES = {
    "vocab_size": 9,
    "num_classes": 3,
    "embedding_size": 4,
    "hidden_size": 5,
    "attention_size": 6,
    "num_rows": 3,
    "classifier_size": 7,
}
WORDS = [[4, 5, 6, 7], [8], [5, 4, 4]]


def make(**more):
    model = StructuredSelfAttention(StructuredSelfAttentionConfig(**SIZES, dropout=0.0, **more)).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def by_hand(model, words):
    """H, A and the logits of one sentence, with torch's own bidirectional LSTM."""
    lstm = nn.LSTM(4, 5, batch_first=True, bidirectional=True).double()
    for name, parameter in model.encoder.forwards.named_parameters():
        getattr(lstm, name).data.copy_(parameter)
    for name, parameter in model.encoder.backwards.named_parameters():
        getattr(lstm, f"{name}_reverse").data.copy_(parameter)
    states = lstm(model.embedding.weight[words].unsqueeze(0))[0][0]
    attention = torch.softmax(model.queries @ torch.tanh(model.key_proj.weight @ states.T), dim=-1)
    matrix = (attention @ states).flatten()
    hidden = torch.relu(model.classifier.hidden.weight @ matrix + model.classifier.hidden.bias)
    return attention, model.classifier.output.weight @ hidden + model.classifier.output.bias


@torch.no_grad()
def test_is_the_formula():
    model = make(penalty=0.5)
    output, penalty = model(PaddedTokens.from_lists(WORDS)), 0.0
    for row, words in enumerate(WORDS):
        attention, logits = by_hand(model, words)
        assert output.logits[row].allclose(logits, atol=1e-12)
        assert output.weights[row, :, : len(words)].allclose(attention, atol=1e-12)
        gram = [[float((a * b).sum()) for b in attention] for a in attention]
        penalty += sum((gram[i][j] - (i == j)) ** 2 for i in range(3) for j in range(3))
    assert output.penalty.allclose(torch.tensor(0.5 * penalty, dtype=torch.float64), atol=1e-12)


def test_the_penalty_of_a_single_word_counts_its_overlap():
    # every row is 1 on the one word: A A^T is all ones, and 6 of its 9 entries should be 0
    assert make(penalty=1.0)(PaddedTokens.from_lists([[5]])).penalty.allclose(torch.tensor(6.0, dtype=torch.float64))
    assert make(penalty=1.0)(PaddedTokens.from_lists([[]])).penalty == 0


def test_a_trace_records_the_rows():
    model = make()
    with trace(model) as maps:
        output = model(PaddedTokens.from_lists(WORDS))
    ((path, (attention_map,)),) = maps.items()
    assert path == "attention"
    assert attention_map.weights.shape == attention_map.scores.shape == (3, 3, 4)
    assert attention_map.weights.allclose(output.weights) and attention_map.context.shape == (3, 3, 10)


def test_a_negative_penalty_is_refused():
    with pytest.raises(ValueError, match=r"penalty is -1\.0, expected 0 or more"):
        StructuredSelfAttention(StructuredSelfAttentionConfig(penalty=-1.0))


def test_the_penalty_decreases_the_overlap_of_the_rows():
    torch.manual_seed(0)
    model = StructuredSelfAttention(StructuredSelfAttentionConfig(**SIZES, dropout=0.0))
    sentences = PaddedTokens.from_lists([[4, 5, 6, 7], [7, 4, 6, 8], [5, 4, 8]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    before = model(sentences).penalty.item()
    for _ in range(25):
        optimizer.zero_grad()
        model(sentences).penalty.backward()
        optimizer.step()
    assert model(sentences).penalty.item() < before / 3
