"""A stream cut into segments: labels, states, and no position twice."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.contracts import EOS
from regard.data.batching.segments import SegmentData, SegmentSettings
from regard.data.text.streams import Stream

SIZES = {"tokens": st.integers(1, 200), "rows": st.integers(1, 9), "length": st.integers(1, 40)}


def data_of(tokens, rows, length, cut="stream", seed=0):
    # every token is its own position, so that labels show their positions
    stream = Stream(ids=np.arange(4, tokens + 4, dtype=np.int32), num_words=tokens, num_characters=tokens)
    return SegmentData(stream, SegmentSettings(rows=rows, length=length, cut=cut, seed=seed))


def segments(data, epoch=0):
    return [data.make(starts) for starts in data.order.epoch(epoch)]


@given(**SIZES)
def test_every_position_is_a_label_at_most_once_and_nearly_all_are(tokens, rows, length):
    data = data_of(tokens, rows, length)
    batches = segments(data)
    labels = list(chain.from_iterable(segment.labels.flatten().tolist() for segment in batches))
    assert len(set(labels)) == len(labels) and set(labels) <= set(range(4, tokens + 4))
    # less than a segment a row is left over, and less than a row's share of the division
    assert tokens - len(labels) < data.order.rows * (data.order.length + 1)
    assert batches and all(segment.num_tokens == segment.labels.numel() for segment in batches)


@given(**SIZES, cut=st.sampled_from(["stream", "crops"]))
def test_labels_are_the_next_tokens(tokens, rows, length, cut):
    for segment in segments(data_of(tokens, rows, length, cut)):
        before = segment.labels - 1
        before[segment.labels == 4] = EOS
        assert segment.tokens.tolist() == before.tolist()


@given(**SIZES)
def test_rows_continue_and_are_fresh_only_at_their_start(tokens, rows, length):
    batches = segments(data_of(tokens, rows, length))
    assert batches[0].fresh.all()
    for segment, following in pairwise(batches):
        assert not following.fresh.any()
        assert following.tokens[:, 0].tolist() == segment.labels[:, -1].tolist()


@given(**SIZES, seed=st.integers(0, 3), epoch=st.integers(0, 3))
def test_crops_are_fresh_lie_within_the_text_and_depend_on_seed_and_epoch(tokens, rows, length, seed, epoch):
    data = data_of(tokens, rows, length, "crops", seed)
    drawn = data.order.epoch(epoch)
    assert drawn == data_of(tokens, rows, length, "crops", seed).order.epoch(epoch)
    assert all(0 <= start <= tokens - data.order.length for starts in drawn for start in starts)
    assert all(segment.fresh.all() for segment in segments(data, epoch))
    assert len(drawn) == max(tokens // (data.order.rows * data.order.length), 1)


def test_other_seeds_and_epochs_draw_other_crops():
    drawn = [
        data_of(10_000, 8, 10, "crops", seed).order.epoch(epoch) for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1)]
    ]
    assert all(one != other for number, one in enumerate(drawn) for other in drawn[:number])
    assert len(set(drawn[0][0])) > 4


def test_a_text_shorter_than_a_segment_is_one_row():
    order = data_of(7, 20, 35).order
    assert (order.rows, order.length, order.epoch(0)) == (1, 7, [[0]])
    order = data_of(80, 20, 35).order
    assert (order.rows, order.length, order.epoch(3)) == (2, 35, [[0, 40]])
    assert data_of(1, 5, 5).make([0]).labels.tolist() == [[4]]


@given(**SIZES, of=st.integers(1, 4))
def test_shares_are_disjoint_and_complete(tokens, rows, length, of):
    data = data_of(tokens, rows, length)
    starts = data.order.epoch(0)[0]
    parts = [data.share(starts, part, of) for part in range(of)]
    assert sorted(chain.from_iterable(parts)) == sorted(starts)
    assert sum(map(data.num_tokens, parts)) == data.num_tokens(starts)


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rows": 0}, "batch.rows is 0, expected 1 or more"),
        ({"length": -1}, "batch.length is -1"),
        ({"cut": "cropps"}, "the nearest is 'crops'"),
        ({"seed": -1}, "the seed is -1"),
    ],
)
def test_invalid_segment_settings_raise_errors(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        SegmentSettings(**changes)
