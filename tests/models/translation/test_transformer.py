"""The Transformer against torch's own layers, packed against padded, and any score in its heads."""

import math

import pytest
import torch
from torch import nn

from regard import trace
from regard.attention.scores import SCORES
from regard.contracts import PackedTokens, PaddedTokens
from regard.models.translation.transformer import Transformer, TransformerConfig
from tests.models.translation.stepping import take_steps

SOURCE = [[4, 5, 6, 2], [7, 2], [5, 5, 8, 9, 4, 2]]
TARGET = [[1, 4, 5], [1, 6, 7, 8, 9], [1]]
SIZES = {"source_vocab_size": 11, "target_vocab_size": 11, "hidden_size": 8, "num_layers": 2, "num_heads": 2}


def build(**changes):
    torch.manual_seed(0)
    config = TransformerConfig(**SIZES, feed_forward_size=16, dropout=0.0, **changes)
    model = Transformer(config).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def copy_attention(ours, theirs):
    projections = (ours.query_proj, ours.key_proj, ours.value_proj)
    theirs.in_proj_weight.data = torch.cat([one.weight for one in projections])
    theirs.in_proj_bias.data = torch.cat([one.bias for one in projections])
    theirs.out_proj.load_state_dict(ours.output_proj.state_dict())


def copy_layer(ours, theirs, norms):
    copy_attention(ours.self_attention if hasattr(ours, "self_attention") else ours.attention, theirs.self_attn)
    if hasattr(ours, "cross_attention"):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.hidden.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.output.state_dict())
    for number, name in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(getattr(ours, name).norm.state_dict())


def torch_transformer(model):
    """torch.nn.Transformer with the same weights; it adds a norm at the top even in the paper's order."""
    pre = model.config.norm == "pre"
    reference = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True, norm_first=pre).double().eval()
    for ours, theirs in zip(model.encoder, reference.encoder.layers, strict=True):
        copy_layer(ours, theirs, ("attention_norm", "feed_forward_norm"))
    for ours, theirs in zip(model.decoder, reference.decoder.layers, strict=True):
        copy_layer(ours, theirs, ("self_attention_norm", "cross_attention_norm", "feed_forward_norm"))
    for side in ("encoder", "decoder"):
        if pre:
            getattr(reference, side).norm.load_state_dict(getattr(model, f"{side}_norm").state_dict())
        else:
            getattr(reference, side).norm = None
    return reference


def with_places(table, ids):
    """sqrt(d) E[token] + sinusoids, by the formula."""
    places = torch.zeros(ids.shape[1], 8, dtype=torch.float64)
    for place in range(ids.shape[1]):
        for feature in range(8):
            angle = place / 10_000 ** (feature // 2 * 2 / 8)
            places[place, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return math.sqrt(8) * table[ids] + places


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equals_torch_transformer(norm):
    model = build(norm=norm).eval()
    source, target = PaddedTokens.from_lists(SOURCE), PaddedTokens.from_lists(TARGET)
    table = model.target_embedding.table.weight
    states = torch_transformer(model)(
        with_places(table, source.ids),
        with_places(table, target.ids),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(5).double(),
        src_key_padding_mask=~source.mask,
        memory_key_padding_mask=~source.mask,
    )
    assert model(source, target)[target.mask].allclose((states @ table.T)[target.mask], atol=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_every_score_can_be_used_and_packed_equals_padded(score):
    model = build(score=score)
    source, target = PaddedTokens.from_lists(SOURCE), PaddedTokens.from_lists(TARGET)
    packed_source, packed_target = PackedTokens.from_lists(SOURCE), PackedTokens.from_lists(TARGET)
    filled = (
        packed_source.pad_to(batch_size=5, num_tokens=20, max_seqlen=7),
        packed_target.pad_to(batch_size=5, num_tokens=12, max_seqlen=7),
    )
    logits = model(source, target)[target.mask]
    # location has no keys: their projections are not used
    options = {"allow_unused": True, "materialize_grads": True} if score == "location" else {}
    gradient = torch.autograd.grad(logits.square().sum(), list(model.parameters()), **options)
    for given in ((packed_source, packed_target), filled):
        actual = model(*given)[: len(logits)]
        assert actual.allclose(logits, atol=1e-10)
        for one, other in zip(
            torch.autograd.grad(actual.square().sum(), list(model.parameters()), **options), gradient, strict=True
        ):
            assert one.allclose(other, atol=1e-8)


def test_embeddings_are_shared_if_the_vocabulary_is():
    shared = build()
    assert shared.source_embedding is shared.target_embedding
    assert shared.readout.weight is shared.target_embedding.table.weight
    apart = build(shared_embeddings=False)
    assert apart.source_embedding is not apart.target_embedding


def test_the_alignment_is_the_mean_over_the_heads_of_the_last_layer():
    model = build().eval()
    encoded = model.encode(PaddedTokens.from_lists(SOURCE))
    with trace(model) as maps:
        step = model.step(torch.tensor([1, 1, 1]), model.start(encoded), encoded)
    (attention_map,) = maps["decoder.1.cross_attention"]
    assert step.weights.allclose(attention_map.weights.mean(dim=1)[:, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"norm": "middle"}, "norm is 'middle', expected one of post, pre"), ({"score": "dott"}, "score is 'dott'")],
)
def test_unknown_names_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_a_source_without_tokens_gives_a_context_of_zeros():
    model = build().eval()
    source, target = PaddedTokens.from_lists([SOURCE[0], []]), PaddedTokens.from_lists(TARGET[:2])
    _, _, alignments = take_steps(model, source, target)
    assert (alignments[1] == 0).all()


def test_an_empty_batch_is_encoded():
    with torch.inference_mode():
        assert build().eval().encode(PaddedTokens.from_lists([])).memories[0].keys.shape[0] == 0
