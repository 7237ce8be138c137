"""Dataclasses with tensors are pytrees to torch: torch.export, tree_map and torch.func traverse them."""

import io
from dataclasses import replace

import pytest
import torch
from torch.utils import _pytree as pytree

from regard import Attention, MultiHeadAttention, PositionInfo, attend, trace
from regard.attention import FixedCache, GrowingCache, WindowCache
from regard.attention.masks import causal
from regard.contracts import (
    Aligned,
    Batch,
    ClassificationBatch,
    ClassifierOutput,
    ModelOutput,
    PackedTokens,
    PaddedTokens,
    Segment,
    Step,
    leaves,
    map_tensors,
    select_batch,
)
from tests.test_api import small_classifier, small_transformer

IDS = torch.tensor([[4, 5, 6], [7, 8, 0]])
PADDED, PACKED = PaddedTokens(IDS, torch.tensor([3, 2])), PackedTokens.from_lists([[4, 5, 6], [7, 8]])
STATES = torch.randn(2, 4, 8)
HEADS = MultiHeadAttention(8, 2)


def cached(cache):
    with torch.no_grad():
        return HEADS(STATES, mask=causal(), cache=cache).cache


def traced():
    with trace(HEADS) as maps:
        HEADS(STATES)
    return maps[""][0]


TREES = {
    "padded": PADDED,
    "packed": PACKED,
    "memory": Attention().prepare_memory(STATES, mask=torch.ones(2, 4, dtype=torch.bool)),
    "attended": HEADS(STATES, return_weights=True, cache=GrowingCache()),
    "position_info": PositionInfo(positions=torch.arange(4)),
    "aligned": Aligned(weights=torch.rand(2, 3)),
    "step": Step(logits=torch.randn(2, 5), state=(STATES, {"a": STATES})),
    "model_output": ModelOutput(features=STATES, penalty=torch.tensor(1.0)),
    "classifier_output": ClassifierOutput(logits=torch.randn(2, 3)),
    "batch": Batch(source=PADDED, target=PACKED, labels=IDS, num_tokens=5),
    "labelled": ClassificationBatch(sentences=PADDED, labels=torch.tensor([0, 1]), num_tokens=2),
    "segment": Segment(tokens=IDS, labels=IDS, fresh=torch.tensor([True, False]), num_tokens=6),
    "growing": cached(GrowingCache()),
    "fixed": cached(FixedCache(capacity=9)),
    "window": cached(WindowCache(size=3)),
    "attention_map": traced(),
}


@pytest.mark.parametrize("name", TREES)
def test_tree_map_covers_every_tensor_and_keeps_other_values(name):
    tree = TREES[name]
    tensors, structure = pytree.tree_flatten(tree)
    assert tensors and all(isinstance(tensor, torch.Tensor) for tensor in tensors)
    doubled = pytree.tree_map(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, tree)
    assert type(doubled) is type(tree)
    assert pytree.tree_structure(doubled) == structure
    for old, new in zip(tensors, pytree.tree_leaves(doubled), strict=True):
        assert torch.equal(new.to(old.dtype), old)
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    assert len(paths) == len(set(paths)) == len(tensors)


@pytest.mark.parametrize("name", [name for name in TREES if name not in ("attention_map",)])
def test_leaves_equal_those_of_torch(name):
    ours = leaves(TREES[name])
    theirs = pytree.tree_leaves(TREES[name])
    assert len(ours) == len(theirs)
    assert all(one is other for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("empty", [GrowingCache(), FixedCache(capacity=8)])
@pytest.mark.parametrize("mapping", [map_tensors, pytree.tree_map])
@torch.no_grad()
def test_copies_of_a_cache_that_share_its_buffers_do_not_overwrite_each_other(empty, mapping):
    new = [torch.full((2, 2, 1, 4), float(value)) for value in range(3)]
    cache = empty.append(new[0], new[0])
    copy = mapping(lambda tensor: tensor, cache)
    first, second = cache.append(new[1], new[1]), copy.append(new[2], new[2])
    assert first.keys[0, 0, :, 0].tolist() == [0, 1]
    assert second.keys[0, 0, :, 0].tolist() == [0, 2]
    chosen = select_batch(first, torch.tensor([1, 1, 0]))
    both = first.append(new[2], new[2]), chosen.append(*[torch.ones(3, 2, 1, 4)] * 2)
    assert [cache.keys[0, 0, :, 0].tolist() for cache in both] == [[0, 1, 2], [0, 1, 1]]


def test_torch_func_maps_over_a_memory():
    attention = Attention()
    memory = attention.prepare_memory(STATES)
    mapped = torch.func.vmap(lambda queries, memory: attention(queries, memory).context)(STATES, memory)
    assert mapped.allclose(attend(STATES, STATES, STATES).context, atol=1e-5)


@pytest.mark.unchecked
def test_a_translator_and_a_classifier_export():
    # torch.export takes a tensor that is passed twice for one input
    source, target = PADDED, PaddedTokens(IDS + 1, PADDED.lengths.clone())
    translator, classifier = small_transformer(), small_classifier()
    with torch.no_grad():
        exported = torch.export.export(translator, (source, target), strict=False)
        again = PaddedTokens(IDS.flip(0), PADDED.lengths.flip(0))
        assert exported.module()(again, target).allclose(translator(again, target), atol=1e-5)
        exported = torch.export.export(classifier, (source,), strict=False)
        file = io.BytesIO()
        torch.export.save(exported, file)
        file.seek(0)
        # the file has the example inputs too
        with torch.serialization.safe_globals([PaddedTokens]):
            output = torch.export.load(file).module()(again)
    assert isinstance(output, ClassifierOutput)
    assert output.logits.allclose(classifier(again).logits, atol=1e-5)


def test_a_packed_batch_of_another_shape_is_another_structure():
    other = replace(PACKED, max_seqlen=4)
    assert pytree.tree_structure(other) != pytree.tree_structure(PACKED)
