"""Sources of any kind: decoding uses their lengths, device and `to`, and a function that stacks them."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard.contracts import EOS, LengthLimit, Memory, PackedTokens, PaddedTokens, Source
from regard.decoding import Beam, Greedy, Sampling, decode_all, score_all
from tests.decoding.fakes import Attending

SEARCHES = [Greedy(), Beam(size=3, num_best=2), Sampling(seed=1)]
LIMIT = LengthLimit(0.0, 6)


@dataclass(frozen=True)
class Frames:
    """Vectors instead of tokens."""

    vectors: Tensor
    lengths: Tensor

    @property
    def device(self):
        return self.vectors.device

    def to(self, device):
        return replace(self, vectors=self.vectors.to(device), lengths=self.lengths.to(device))


def stack(frames):
    return Frames(pad_sequence(frames, batch_first=True), torch.tensor([len(one) for one in frames]))


class FrameReader(Attending):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 16)

    def encode(self, source):
        states = self.proj(source.vectors)
        mask = torch.arange(states.shape[1], device=states.device) < source.lengths[:, None]
        return Memory(keys=states, values=states, mask=mask)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_frames_are_decoded_and_scored_in_any_batches(search):
    model = FrameReader().double().eval()
    frames = [torch.randn(length, 3, dtype=torch.float64) for length in (5, 2, 9, 1, 5)]
    together = decode_all(model, frames, stack=stack, limit=LIMIT, search=search, return_weights=True)
    alone = decode_all(model, frames, stack=stack, limit=LIMIT, search=search, tokens_per_batch=1)
    assert [one[0].ids for one in together] == [one[0].ids for one in alone]
    finished = [
        (source, one) for source, actual in zip(frames, together, strict=True) for one in actual if one.finished
    ]
    assert all(one.weights.shape == (len(one.ids) + 1, len(source)) for source, one in finished)
    scores = score_all(model, [source for source, _ in finished], [list(one.ids) for _, one in finished], stack=stack)
    assert scores == pytest.approx([one.log_prob for _, one in finished], abs=1e-9)


def test_batches_of_tokens_are_sources():
    rows = [[4, 5, EOS], [6, EOS]]
    for source in (PaddedTokens.from_lists(rows), PackedTokens.from_lists(rows), stack([torch.zeros(2, 3)])):
        assert isinstance(source, Source)
        assert source.device == torch.device("cpu")
        on_meta = source.to("meta")
        assert type(on_meta) is type(source) and on_meta.device.type == on_meta.lengths.device.type == "meta"
    assert PackedTokens.from_lists(rows).to("meta").max_seqlen == 3
    assert not isinstance(torch.zeros(2), Source)
