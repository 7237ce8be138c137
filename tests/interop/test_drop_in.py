"""Construction, saving, calls and errors of the replacement equal those of torch.nn.MultiheadAttention."""

import copy
import inspect
import io
import itertools
import pickle

import pytest
import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

import regard
from regard.interop import MultiheadAttention
from tests.interop.cases import BATCH, EMBED, FLAGS, HEADS, KEYS, PLAIN, QUERIES, SOURCES, make_case, make_pair

BUILDS = [
    {**sizes, **flags, "batch_first": batch_first}
    for sizes, flags, batch_first in itertools.product(SOURCES.values(), FLAGS, (True, False))
]
ATTRIBUTES = ("embed_dim", "kdim", "vdim", "num_heads", "head_dim", "dropout", "batch_first", "add_zero_attn")


def test_signatures_equal_those_of_torch():
    for name in ("__init__", "forward"):
        theirs, ours = (
            inspect.signature(getattr(module, name)) for module in (nn.MultiheadAttention, MultiheadAttention)
        )
        assert [(one.name, one.default, one.kind) for one in theirs.parameters.values()] == [
            (one.name, one.default, one.kind) for one in ours.parameters.values()
        ]


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_same_parameters_under_the_same_seed(build):
    pair = []
    for module in (nn.MultiheadAttention, MultiheadAttention):
        torch.manual_seed(3)
        pair.append(module(EMBED, HEADS, dropout=0.1, **build))
    theirs, ours = pair
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for name, parameter in theirs.state_dict().items():
        assert torch.equal(parameter, ours.state_dict()[name]), name
    for name in (*ATTRIBUTES, "_qkv_same_embed_dim"):
        assert getattr(theirs, name) == getattr(ours, name), name
    for name in ("bias_k", "bias_v", "in_proj_weight", "in_proj_bias", "q_proj_weight"):
        assert (getattr(theirs, name) is None) == (getattr(ours, name) is None), name
    assert isinstance(ours, nn.MultiheadAttention)
    theirs.load_state_dict(ours.state_dict())
    assert [str(one) for one in theirs.children()] == [str(one) for one in ours.children()]


def test_dtype_and_device_reach_every_parameter():
    ours = MultiheadAttention(EMBED, HEADS, add_bias_kv=True, device="meta", dtype=torch.float64)
    assert {(one.device.type, one.dtype) for one in ours.parameters()} == {("meta", torch.float64)}


@pytest.mark.parametrize("source", SOURCES)
def test_copies_and_pickles_give_equal_outputs(source):
    case = make_case(source, "batch-first", {**PLAIN, "add_bias_kv": True})
    _, ours = make_pair(case.build)
    saved = io.BytesIO()
    torch.save(ours, saved)
    saved.seek(0)
    copies = [
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        torch.load(saved, weights_only=False),
        copy.deepcopy(copy.deepcopy(ours)),
    ]
    expected = ours(case.query, case.key, case.value)
    for other in copies:
        assert all(map(torch.equal, expected, other(case.query, case.key, case.value)))
        assert len(other._forward_pre_hooks) == 1


def test_a_hook_keeps_its_place_in_a_process_that_counts_hooks_from_zero(monkeypatch):
    saved = pickle.dumps(MultiheadAttention(EMBED, HEADS))
    # as a fresh process does, count hooks from 0 again
    monkeypatch.setattr(RemovableHandle, "next_id", 0)
    loaded = pickle.loads(saved)
    handles = [loaded.register_forward_pre_hook(lambda *_: None) for _ in range(1000)]
    for handle in handles:
        handle.remove()
    assert len(loaded._forward_pre_hooks) == 1


def test_output_is_contiguous_in_either_layout():
    for batch_first in (True, False):
        ours = MultiheadAttention(EMBED, HEADS, batch_first=batch_first)
        states = torch.randn(3, 2, EMBED)
        for need_weights in (True, False):
            assert ours(states, states, states, need_weights=need_weights)[0].is_contiguous()


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
@pytest.mark.parametrize("need_weights", [True, False])
def test_empty_keys_and_empty_queries(batch, queries, keys, need_weights):
    ours = MultiheadAttention(EMBED, HEADS, batch_first=True)
    nn.init.normal_(ours.out_proj.bias)
    query, key = torch.randn(batch, queries, EMBED), torch.randn(batch, keys, EMBED)
    output, weights = ours(query, key, key, need_weights=need_weights)
    assert output.shape == (batch, queries, EMBED)
    assert weights is None or weights.shape == (batch, queries, keys)
    if keys == 0:
        assert torch.equal(output, ours.out_proj.bias.expand_as(output))


def test_a_query_without_allowed_keys_gives_the_output_bias():
    ours = MultiheadAttention(EMBED, HEADS, batch_first=True)
    nn.init.normal_(ours.out_proj.bias)
    states = torch.randn(2, 3, EMBED, requires_grad=True)
    padding = torch.tensor([[False, False, True], [True, True, True]])
    added = torch.zeros(2, 3).masked_fill(padding, -torch.inf)
    for mask, need_weights in itertools.product((padding, added), (True, False)):
        output, weights = ours(states, states, states, key_padding_mask=mask, need_weights=need_weights)
        assert torch.equal(output[1], ours.out_proj.bias.expand(3, EMBED))
        assert weights is None or (weights[1] == 0).all()
        (gradient,) = torch.autograd.grad(output.square().sum(), states)
        assert gradient.isfinite().all()
        assert (gradient[1] == 0).all()


STATES = (BATCH, QUERIES, EMBED)
WRONG_CALLS = {
    "4-D query": ({"query": (1, BATCH, QUERIES, EMBED)}, {}, "or .L, embed_dim. without a batch"),
    "unbatched key": ({"key": (KEYS, EMBED)}, {}, "all three have a batch"),
    "query size": ({"query": (BATCH, QUERIES, 5)}, {}, "embed_dim=8"),
    "key size": ({"key": (BATCH, KEYS, 5)}, {}, "key has size 5.*kdim=8"),
    "value length": ({"value": (BATCH, 9, EMBED)}, {}, "each key needs one value"),
    "batch": ({"query": (5, QUERIES, EMBED)}, {}, "batch of 5.*of 2"),
    "2-D mask": ({}, {"attn_mask": torch.zeros(2, 2)}, r"expected \(3, 4\) or \(4, 3, 4\)"),
    "3-D mask": ({}, {"attn_mask": torch.zeros(2, 3, 4)}, r"expected \(3, 4\) or \(4, 3, 4\)"),
    "integer mask": ({}, {"attn_mask": torch.zeros(3, 4, dtype=torch.long)}, "0/1 mask pass attn_mask.bool"),
    "padding shape": ({}, {"key_padding_mask": torch.zeros(4, dtype=torch.bool)}, r"expected \(2, 4\)"),
    "hint alone": ({}, {"is_causal": True}, "generate_square_subsequent_mask"),
}


@pytest.mark.parametrize(("shapes", "call", "message"), WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_invalid_calls_raise_errors_with_an_explanation(shapes, call, message):
    ours = MultiheadAttention(EMBED, HEADS, batch_first=True)
    shapes = {"query": STATES, "key": (BATCH, KEYS, EMBED), "value": (BATCH, KEYS, EMBED), **shapes}
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    with pytest.raises(TypeError if "0/1 mask" in message else ValueError, match=message):
        ours(**tensors, **call)


def test_precision_and_device_must_agree():
    ours = MultiheadAttention(EMBED, HEADS)
    states = torch.randn(3, 2, EMBED, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"query has dtype torch.float64 but the module has torch.float32"):
        ours(states, states, states)
    with pytest.raises(ValueError, match="key is on meta"):
        ours(states.float(), states.float().to("meta"), states.float())
    with pytest.raises(ValueError, match="attn_mask is on meta"):
        ours(*[states.float()] * 3, attn_mask=torch.zeros(3, 3, device="meta"))


@pytest.mark.parametrize(
    ("build", "message"),
    [((8, 3), "embed_dim=9"), ((0, 1), "expected 1 or more"), ((8, 0), "expected 1"), ((8, 2, 1.5), "dropout is 1.5")],
)
def test_invalid_arguments_raise_errors_with_an_explanation(build, message):
    with pytest.raises(ValueError, match=message):
        MultiheadAttention(*build)


def test_runs_under_autocast():
    theirs, ours = make_pair({**PLAIN, "add_bias_kv": True}, torch.float32)
    states = torch.randn(3, 2, EMBED)
    mask = torch.randn(3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    with torch.autocast("cpu", torch.bfloat16):
        for need_weights in (True, False):
            call = {"attn_mask": mask, "need_weights": need_weights}
            expected, actual = (module(states, states, states, **call)[0] for module in (theirs, ours))
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual, expected, atol=0.1, rtol=0.05)


def test_trace_records_its_attention():
    _, ours = make_pair({**PLAIN, "batch_first": True}, torch.float32)
    model = nn.Sequential(nn.Identity())
    model.add_module("attention", ours)
    states = torch.randn(2, 3, EMBED)
    expected = ours(states, states, states, need_weights=False)[0]
    with regard.trace(model) as maps:
        actual, weights = model.attention(states, states, states, need_weights=False)
    assert weights is None
    torch.testing.assert_close(actual, expected)
    (attention_map,) = maps["attention"]
    assert attention_map.weights.shape == (2, HEADS, 3, 3)
    assert torch.equal(attention_map.weights, ours(states, states, states, average_attn_weights=False)[1])


@pytest.mark.unchecked
def test_compiles_to_one_graph():
    _, ours = make_pair({**PLAIN, "batch_first": True}, torch.float32)
    states = torch.randn(2, 3, EMBED)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    for call in ({"need_weights": False}, {"attn_mask": mask}, {"attn_mask": mask, "is_causal": True}):
        expected, actual = (module(states, states, states, **call)[0] for module in (ours, compiled))
        torch.testing.assert_close(actual, expected)
