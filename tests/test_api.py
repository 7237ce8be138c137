"""The top level: which_backend over tensors, attentions, models and predictors; what print shows."""

from functools import partial

import pytest
import torch

import regard
from regard import Attention, MultiHeadAttention, attend
from regard.attention import GrowingCache
from regard.attention.alignments import Diagonal, Entmax, Gumbel, Hard, LocalMonotonic, LocalPredictive, Sigmoid
from regard.attention.masks import causal, window
from regard.attention.positions import Alibi, Learned, Relative, Rotary, Sinusoidal
from regard.attention.scores import (
    ActivatedGeneral,
    Additive,
    BiasedGeneral,
    Concat,
    Cosine,
    Gaussian,
    General,
    Location,
)
from regard.contracts import PackedTokens
from regard.kernels import attend_fused
from regard.models.text_classification import CNN, CNNConfig
from regard.models.translation import Transformer, TransformerConfig

STATES = torch.randn(2, 9, 8)
SMALL = {
    "source_vocab_size": 12,
    "target_vocab_size": 12,
    "hidden_size": 8,
    "num_layers": 1,
    "num_heads": 2,
    "feed_forward_size": 16,
}


def small_transformer():
    return Transformer(TransformerConfig(**SMALL)).eval()


def small_classifier():
    return CNN(CNNConfig(vocab_size=12, num_classes=3, embedding_size=8)).eval()


def backend_that_ran(monkeypatch, call):
    """The backend of every request to the kernels while `call` runs; "plain" if there was none."""
    requests = []

    def listen(request):
        requests.append(request)
        return attend_fused(request)

    monkeypatch.setattr("regard.attention.prepared.attend_fused", listen)
    call()
    from regard.kernels import choose

    return choose(requests[0]).backend if requests else "plain"


CALLS = {
    "nothing": {},
    "causal": {"mask": causal()},
    "window": {"mask": window(1)},
    "weights": {"return_weights": True},
    "a few weights": {"weights_for_queries": [1]},
}


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
def test_which_backend_names_the_backend_of_attend_and_attention(monkeypatch, options):
    choice = regard.which_backend(STATES, STATES, STATES, **options)
    assert choice.backend == backend_that_ran(monkeypatch, lambda: attend(STATES, STATES, STATES, **options))
    for attention in (
        Attention(),
        Attention(dropout=0.5).train(),
        Attention(align=Entmax()),
        Attention(General(query_size=8, key_size=8)),
    ):
        memory = attention.prepare_memory(STATES)
        choice = regard.which_backend(attention, STATES, memory, **options)
        assert choice.backend == backend_that_ran(monkeypatch, partial(attention, STATES, memory, **options))


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("positions", [None, Rotary(head_size=4), Relative(head_size=4), Alibi(num_heads=2)])
def test_which_backend_names_the_backend_of_heads(monkeypatch, options, positions):
    heads = MultiHeadAttention(8, 2, positions=positions)
    choice = regard.which_backend(heads, STATES, **options)
    assert choice.backend == backend_that_ran(monkeypatch, lambda: heads(STATES, **options))
    choice = regard.which_backend(heads, STATES, cache=GrowingCache(), **options)
    assert choice.backend == backend_that_ran(monkeypatch, lambda: heads(STATES, cache=GrowingCache(), **options))
    if positions is None:
        memory = heads.prepare_memory(STATES)
        choice = regard.which_backend(heads, STATES, memory, **options)
        assert choice.backend == backend_that_ran(monkeypatch, lambda: heads(STATES, memory, **options))


def test_which_backend_gives_every_reason_against_packed_rows():
    packed = PackedTokens.from_lists([[4, 5, 6], [7, 8]])
    states = torch.randn(5, 8)
    plain = regard.which_backend(MultiHeadAttention(8, 2), states, packed=packed, mask=causal())
    assert plain.backend == "sdpa"
    assert plain.refused[0][0] == "packed"
    assert "it is written in Triton, for CUDA" in plain.refused[0][1]
    heads = MultiHeadAttention(8, 4, num_kv_heads=2, positions=Rotary(head_size=2), dropout=0.1, score=Cosine())
    text = str(regard.which_backend(heads, states, packed=packed, mask=window(1), return_weights=True))
    for reason in (
        "Cosine is neither Dot nor ScaledDot",
        "Rotary positions are applied inside the heads",
        "query heads share key heads",
        "dropout is active",
        "the mask is not causal()",
        "not fused: the weights are needed",
    ):
        assert reason in text
    other = PackedTokens.from_lists([[4, 5], [7]])
    memory = MultiHeadAttention(8, 2).prepare_memory(torch.randn(3, 8), packed=other)
    text = str(regard.which_backend(MultiHeadAttention(8, 2), states, memory, packed=packed, mask=causal()))
    assert "a causal mask needs queries and keys of the same sequences" in text


@pytest.mark.cuda
def test_packed_rows_have_a_kernel():
    packed = PackedTokens.from_lists([[4, 5, 6], [7, 8]])
    packed = torch.utils._pytree.tree_map(lambda tensor: tensor.cuda(), packed)
    heads = MultiHeadAttention(32, 2).cuda()
    assert regard.which_backend(heads, torch.randn(5, 32, device="cuda"), packed=packed).backend == "packed"


def test_which_backend_names_the_code_of_models():
    assert "decodes with FusedTransformer" in regard.which_backend(small_transformer())
    assert "with its own code" in regard.which_backend(small_classifier())
    with pytest.raises(TypeError, match="not for a Transformer"):
        regard.which_backend(small_transformer(), STATES)


def test_an_empty_module_is_a_score_and_not_replaced_by_the_default():
    class Nothing(torch.nn.Sequential):
        ignores_row_constant = True

        def prepare(self, keys):
            return keys

        def lower(self, queries, keys):
            return "it is empty"

    assert isinstance(Attention(score=Nothing()).score, Nothing)
    assert isinstance(MultiHeadAttention(8, 2, align=Nothing()).align, Nothing)


SETTINGS = {
    "scale=2.0": Cosine(scale=2.0),
    "num_widths=3": Gaussian(width=[1.0, 2.0, 3.0]),
    "query_size=4, key_size=5, hidden_size=6": Additive(query_size=4, key_size=5, hidden_size=6),
    "query_size=4, key_size=6, hidden_size=5": Concat(query_size=4, key_size=6, hidden_size=5),
    "query_size=4, key_size=5": General(query_size=4, key_size=5),
    "query_size=3, key_size=5": BiasedGeneral(query_size=3, key_size=5),
    "key_size=2, activation=tanh": ActivatedGeneral(query_size=2, key_size=2),
    "max_length=7": Location(query_size=4, max_length=7),
    "window=3": LocalMonotonic(window=3),
    "hidden_size=2, window=4": LocalPredictive(query_size=4, hidden_size=2, window=4),
    "alpha=1.3": Entmax(alpha=1.3),
    "bias=-2.0": Sigmoid(bias=-2.0),
    "ratio=0.5, spread=2.0": Diagonal(ratio=0.5, spread=2.0),
    "temperature=0.5": Hard(Gumbel(temperature=0.5)),
    "hidden_size=6, base=10000.0": Sinusoidal(hidden_size=6),
    "Embedding(9, 6)": Learned(hidden_size=6, max_length=9),
    "num_heads=3": Alibi(num_heads=3),
    "head_size=4, max_distance=5": Relative(head_size=4, max_distance=5),
    "head_size=4, base=100.0": Rotary(head_size=4, base=100.0),
    "dropout=0.3": Attention(dropout=0.3),
    "8, num_heads=4, num_kv_heads=2, head_size=2, source_size=6, dropout=0.1": MultiHeadAttention(
        8, 4, num_kv_heads=2, source_size=6, dropout=0.1
    ),
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_print_shows_the_settings(settings):
    assert settings in str(SETTINGS[settings])
