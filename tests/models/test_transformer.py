"""The Transformer against torch's own layers, packed against padded, and any score in its heads."""

import math

import pytest
import torch
from torch import nn

from regard import trace
from regard.attention import SCORES
from regard.attention.alignments import Sigmoid
from regard.contracts import Packed, Sequences
from regard.layers import GatedFeedForward
from regard.layers.lean import LONGEST_FORMED
from regard.layers.lean_stack import READY_PLACES
from regard.models.transformer import Transformer, TransformerConfig
from tests.models.stepping import take_steps

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
    made = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True, norm_first=pre).double().eval()
    for ours, theirs in zip(model.encoder, made.encoder.layers, strict=True):
        copy_layer(ours, theirs, ("attention_norm", "feed_forward_norm"))
    for ours, theirs in zip(model.decoder, made.decoder.layers, strict=True):
        copy_layer(ours, theirs, ("self_attention_norm", "cross_attention_norm", "feed_forward_norm"))
    for side in ("encoder", "decoder"):
        if pre:
            getattr(made, side).norm.load_state_dict(getattr(model, f"{side}_norm").state_dict())
        else:
            getattr(made, side).norm = None
    return made


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
    source, target = Sequences.of(SOURCE), Sequences.of(TARGET)
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
def test_any_score_fits_its_heads_and_packed_equals_padded(score):
    model = build(score=score)
    source, target = Sequences.of(SOURCE), Sequences.of(TARGET)
    packed_source, packed_target = Packed.of(SOURCE), Packed.of(TARGET)
    filled = (
        packed_source.fill(num_rows=5, num_tokens=20, longest=7),
        packed_target.fill(num_rows=5, num_tokens=12, longest=7),
    )
    logits = model(source, target)[target.mask]
    # location has no keys: their projections are not used
    options = {"allow_unused": True, "materialize_grads": True} if score == "location" else {}
    gradient = torch.autograd.grad(logits.square().sum(), list(model.parameters()), **options)
    for given in ((packed_source, packed_target), filled):
        found = model(*given)[: len(logits)]
        assert found.allclose(logits, atol=1e-10)
        for one, other in zip(
            torch.autograd.grad(found.square().sum(), list(model.parameters()), **options), gradient, strict=True
        ):
            assert one.allclose(other, atol=1e-8)


def test_embeddings_are_shared_where_the_vocabulary_is_one():
    shared = build()
    assert shared.source_embedding is shared.target_embedding
    assert shared.readout.weight is shared.target_embedding.table.weight
    apart = build(shared_embeddings=False)
    assert apart.source_embedding is not apart.target_embedding


def test_the_alignment_is_the_last_layers_mean():
    model = build().eval()
    encoded = model.encode(Sequences.of(SOURCE))
    with trace(model) as maps:
        step = model.step(torch.tensor([1, 1, 1]), model.start(encoded), encoded)
    (read,) = maps["decoder.1.cross_attention"]
    assert step.alignment.allclose(read.weights.mean(dim=1)[:, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"norm": "middle"}, "norm is 'middle', expected one of post, pre"), ({"score": "dott"}, "score is 'dott'")],
)
def test_unknown_names_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)


LEAN_SOURCES = {
    "padded": SOURCE,
    "of one length": [row[:2] for row in SOURCE],
    "one": SOURCE[:1],
    "too long to form scores": [*SOURCE[1:], [4 + place % 7 for place in range(LONGEST_FORMED + 2)]],
    "past the ready places": [*SOURCE[1:], [4 + place % 7 for place in range(READY_PLACES + 2)]],
}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", LEAN_SOURCES.values(), ids=LEAN_SOURCES)
def test_lean_steps_give_the_same(rows, norm, dtype):
    model = build(norm=norm).to(dtype).eval()
    source, target = Sequences.of(rows), Sequences.of(TARGET[: len(rows)])
    usual = take_steps(model, source, target)
    with torch.inference_mode():
        lean = take_steps(model, source, target)
    assert [one[0].lean is not None for one in (usual, lean)] == [False, True]
    for one, other in zip(usual[1:], lean[1:], strict=True):
        assert one.allclose(other, atol=1e-5 if dtype is torch.float32 else 1e-12)


def test_a_source_without_tokens_reads_zeros():
    model = build().eval()
    source, target = Sequences.of([SOURCE[0], []]), Sequences.of(TARGET[:2])
    _, usual, _ = take_steps(model, source, target)
    with torch.inference_mode():
        _, logits, alignments = take_steps(model, source, target)
    assert logits.allclose(usual, atol=1e-12)
    assert (alignments[1] == 0).all()


def gated(model):
    for layer in model.decoder:
        layer.feed_forward = GatedFeedForward(size=8, hidden_size=16).double()


def another_alignment(model):
    for layer in model.decoder:
        layer.cross_attention.align = Sigmoid()


def hooked(model):
    model.decoder[0].register_forward_hook(lambda *_: None)


@pytest.mark.parametrize("change", [gated, another_alignment, hooked])
def test_a_model_that_was_changed_is_decoded_as_it_is_now(change):
    model = build().eval()
    source, target = Sequences.of(SOURCE), Sequences.of(TARGET)
    with torch.inference_mode():
        assert take_steps(model, source, target)[0].lean is not None
    change(model)
    usual = take_steps(model, source, target)
    with torch.inference_mode():
        found = take_steps(model, source, target)
    assert found[0].lean is None
    assert found[1].allclose(usual[1], atol=1e-12)


def test_a_source_encoded_leanly_serves_whoever_asks_step_by_step():
    model = build().eval()
    source, tokens = Sequences.of(SOURCE), torch.tensor([1, 1, 1])
    with torch.no_grad():
        encoded = model.encode(source)
        lean = model.step(tokens, model.start(encoded), encoded)
        with trace(model) as maps:
            model.step(tokens, model.start(encoded), encoded)
    assert encoded.lean is not None and len(maps["decoder.0.cross_attention"]) == 1
    usual = model.step(tokens, model.start(encoded), encoded)
    assert usual.logits.allclose(lean.logits, atol=1e-12)
    usual.logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.decoder[0].self_attention.parameters())


def test_autocast_decodes():
    model = build().float().eval()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        encoded, logits, _ = take_steps(model, Sequences.of(SOURCE), Sequences.of(TARGET))
    assert encoded.lean is None
    assert logits.isfinite().all()


def test_lean_steps_see_weights_that_changed():
    model = build().eval()
    source, target = Sequences.of(SOURCE), Sequences.of(TARGET)
    with torch.inference_mode():
        take_steps(model, source, target)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    usual = take_steps(model, source, target)
    with torch.inference_mode():
        lean = take_steps(model, source, target)
    assert usual[1].allclose(lean[1], atol=1e-12)


def uncounted(model):
    for parameter in model.parameters():
        parameter.data.mul_(0.5)


def fused(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model(Sequences.of(SOURCE), Sequences.of(TARGET)).sum().backward()
    optimizer.step()


def replaced(model):
    model.decoder[0].cross_attention.query_proj.weight = nn.Parameter(torch.randn(8, 8).double())


@pytest.mark.parametrize("change", [uncounted, fused, replaced])
def test_lean_steps_see_changes_that_torch_does_not_count(change):
    model = build().eval()
    source, target = Sequences.of(SOURCE), Sequences.of(TARGET)
    for _ in range(3):
        with torch.no_grad():
            take_steps(model, source, target)
        change(model)
        usual = take_steps(model, source, target)
        with torch.no_grad():
            encoded, lean, _ = take_steps(model, source, target)
        assert encoded.lean is not None
        assert usual[1].allclose(lean, atol=1e-12)


def low_rank(model):
    class Other(nn.Linear):
        def forward(self, inputs):
            return 2 * super().forward(inputs)

    model.decoder[0].feed_forward.hidden = Other(8, 16).double()


def dropping(model):
    model.decoder[0].feed_forward.train()


def without_norm(model):
    model.decoder[0].feed_forward_norm.norm = nn.Identity()


@pytest.mark.parametrize("change", [low_rank, dropping, without_norm])
def test_a_model_with_parts_of_its_own_does_not_step_leanly(change):
    model = build().eval()
    change(model)
    with torch.inference_mode():
        assert model.encode(Sequences.of(SOURCE)).lean is None


def test_a_batch_without_rows_is_encoded():
    with torch.inference_mode():
        assert build().eval().encode(Sequences.of([])).memories[0].keys.shape[0] == 0


def test_a_traced_model_does_not_step_leanly():
    model = build().eval()
    with torch.inference_mode(), trace(model) as maps:
        encoded, _, _ = take_steps(model, Sequences.of(SOURCE), Sequences.of(TARGET))
    assert not encoded.lean
    assert len(maps["decoder.0.self_attention"]) == 5


@pytest.mark.parametrize("score", ["additive", "gaussian"])
def test_an_unusual_model_does_not_step_leanly(score):
    with torch.inference_mode():
        assert not build(score=score).eval().encode(Sequences.of(SOURCE)).lean
