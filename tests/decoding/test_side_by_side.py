"""Batches side by side: the answers of one after the other, in order, and nothing of the machine left changed."""

import threading

import pytest
import torch

from regard.contracts import EOS
from regard.decoding import Beam, Greedy, decode_all, many
from regard.decoding.side_by_side import count_workers, share_of, side_by_side
from regard.models.translation.transformer import Transformer, TransformerConfig

CPU = torch.device("cpu")


def build():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "feed_forward_size": 32, "dropout": 0.5}
    return Transformer(TransformerConfig(source_vocab_size=30, target_vocab_size=30, **sizes)).double()


def make_rows(count):
    torch.manual_seed(1)
    return [[*torch.randint(4, 30, (int(length),)).tolist(), EOS] for length in torch.randint(1, 30, (count,))]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


@pytest.mark.parametrize("search", [Greedy(), Beam(size=3)], ids=str)
def test_answers_are_those_of_one_batch_after_another(search, threads, monkeypatch):
    model, rows = build(), make_rows(120)
    seen, whole = set(), model.encode
    monkeypatch.setattr(model, "encode", lambda source: (seen.add(threading.get_ident()), whole(source))[1])
    found = decode_all(model, rows, search=search)
    assert threading.get_ident() not in seen and 1 <= len(seen) <= threads
    assert model.training and torch.get_num_threads() == threads
    monkeypatch.setattr(many, "count_workers", lambda *_: 1)
    seen.clear()
    alone = decode_all(model, rows, search=search)
    assert seen == {threading.get_ident()}
    assert [one[0].ids for one in found] == [one[0].ids for one in alone]
    assert [one[0].log_prob for one in found] == pytest.approx([one[0].log_prob for one in alone])


def test_results_come_in_order_and_errors_are_raised(threads):
    assert side_by_side(lambda item: item * item, range(20), workers=4) == [item * item for item in range(20)]

    def fail(item):
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        side_by_side(fail, range(1000), workers=2)
    assert torch.get_num_threads() == threads


def test_whoever_watches_a_model_has_it_to_himself(threads):
    model = build()
    assert count_workers(model, CPU) == threads
    assert count_workers(model, torch.device("cuda")) == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert count_workers(model, CPU) == 1
    handle = model.readout.register_forward_hook(lambda *_: None)
    assert count_workers(model, CPU) == 1
    handle.remove()
    assert count_workers(model, CPU) == threads


@pytest.mark.parametrize(
    ("num_tokens", "most", "workers", "expected"),
    [(100_000, 4096, 1, 4096), (100_000, 4096, 2, 4096), (7056, 4096, 2, 2028), (600, 4096, 2, 512), (600, 64, 4, 64)],
)
def test_batches_are_small_enough_for_all_to_have_some(num_tokens, most, workers, expected):
    assert share_of(num_tokens, most, workers) == expected
