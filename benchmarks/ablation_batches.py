"""Batches as the trainer cuts them by default, out of tokens drawn at random: no corpus is needed.

Multi30k: 4,096 cells a side, rows of similar length together; sentences: 32 rows. Of an epoch it is the batch of
median length.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from benchmarks.translation_pairs import our_batch
from regard.contracts import EOS, UNK, Batch, ClassificationBatch, PaddedTokens, Segment, map_tensors
from regard.data.batching.order import BucketedOrder, RowBudget, TokenBudget
from regard.training.cuda_graph import SHAPE_PADDER

SEED = 0
VOCAB_SIZE = 10_000
NUM_PAIRS = 29_000
TOKENS = 4_096


@cache
def pair_lengths() -> np.ndarray:
    """Lengths like Multi30k's: sources about 15, targets a little off that, <eos> and <bos> among them."""
    draw = np.random.default_rng(SEED)
    source = np.clip(draw.lognormal(2.62, 0.36, NUM_PAIRS), 3, 60)
    target = np.maximum(np.round(source * draw.uniform(0.8, 1.3, NUM_PAIRS)), 2)
    return np.stack([np.round(source) + 1, target + 1], axis=1).astype(np.int64)


def middle(batches: list[list[int]], costs: np.ndarray) -> list[int]:
    """The batch whose longest example is the median of all."""
    ordered = sorted(batches, key=lambda batch: int(costs[batch].max()))
    return ordered[len(ordered) // 2]


def translation_batch(*, is_packed: bool) -> Batch:
    """The median batch of an epoch, as the trainer cuts it."""
    lengths = pair_lengths()
    numbers = middle(BucketedOrder(lengths, budget=TokenBudget(TOKENS), seed=SEED).epoch(0), lengths.max(axis=1))
    draw = np.random.default_rng(SEED)
    pairs = [
        tuple(draw.integers(UNK + 1, VOCAB_SIZE, count - 1).tolist() for count in lengths[number]) for number in numbers
    ]
    return our_batch([([*source, EOS], target) for source, target in pairs], packed=is_packed)


def sentence_batch() -> ClassificationBatch:
    """32 sentences of similar length, with two classes."""
    draw = np.random.default_rng(SEED)
    lengths = np.clip(draw.lognormal(2.3, 0.4, 5_000).round(), 2, 40).astype(np.int64)
    order = BucketedOrder(np.stack([lengths, lengths], axis=1), budget=RowBudget(32), seed=SEED)
    numbers = middle(order.epoch(0), lengths)
    sentences = PaddedTokens.from_lists(
        [draw.integers(UNK + 1, VOCAB_SIZE, lengths[number]).tolist() for number in numbers]
    )
    labels = torch.from_numpy(draw.integers(0, 2, len(numbers)))
    return ClassificationBatch(sentences=sentences, labels=labels, num_tokens=len(numbers))


def segment(num_rows: int, length: int, vocab_size: int) -> Segment:
    """A segment of this many streams."""
    draw = torch.Generator().manual_seed(SEED)
    tokens = torch.randint(UNK + 1, vocab_size, (num_rows, length + 1), generator=draw)
    fresh = torch.ones(num_rows, dtype=torch.bool)
    return Segment(tokens=tokens[:, :-1], labels=tokens[:, 1:], fresh=fresh, num_tokens=num_rows * length)


def pad_to_graph_shape(make: Callable[[], Any]) -> Callable[[], Any]:
    """The same batch padded to the shape of a graph."""
    return lambda: SHAPE_PADDER(make())


def shapes(batch: Any) -> list[list[int]]:
    """The shape of every tensor of a batch."""
    shapes_of_tensors: list[list[int]] = []
    map_tensors(lambda tensor: shapes_of_tensors.append(list(tensor.shape)) or tensor, batch)
    return shapes_of_tensors
