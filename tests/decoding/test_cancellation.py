"""Work that is cancelled ends between two steps, in every loop over steps."""

import pytest
import torch

from regard.contracts import EOS, CancelledError, LengthLimit, PaddedTokens, cancellable, check_cancelled
from regard.decoding import Beam, Generation, Greedy, Sampling, decode, forced_alignment, generate
from regard.models.language_modeling.gpt import GPT, GPTConfig
from tests.decoding.fakes import Attending, markov

SOURCE = [[5, 6, 7, EOS]]
NUM_STEPS = 3


class CancelAfter:
    """Says no `count` times, then yes."""

    def __init__(self, count):
        self.left = count

    def __call__(self):
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("search", [Greedy(), Sampling(), Beam(size=3)], ids=lambda search: type(search).__name__)
def test_a_search_ends_after_the_step_in_which_it_was_cancelled(search):
    # <eos> is improbable, so that only the cancellation ends the search
    model = markov(vocab_size=12, ending=-1e3)
    with pytest.raises(CancelledError), cancellable(CancelAfter(NUM_STEPS)):
        decode(model, PaddedTokens.from_lists(SOURCE), search=search, limit=LengthLimit(0.0, 1000))
    assert model.num_steps == NUM_STEPS


def test_generation_ends_after_the_step_in_which_it_was_cancelled():
    model = GPT(GPTConfig(vocab_size=12, hidden_size=8, num_layers=1, num_heads=2, feed_forward_size=8, context=16))
    cancel = CancelAfter(NUM_STEPS)
    with pytest.raises(CancelledError), cancellable(cancel):
        generate(model, [[5, 6]], Generation(max_tokens=1000, stop_ids=()))
    assert cancel.left == -1, "the work went on after it was cancelled"


def test_a_forced_alignment_ends_after_the_step_in_which_it_was_cancelled():
    cancel = CancelAfter(NUM_STEPS)
    with pytest.raises(CancelledError), cancellable(cancel):
        forced_alignment(Attending(), PaddedTokens.from_lists(SOURCE), PaddedTokens.from_lists([[1] * 50]))
    assert cancel.left == -1


def test_only_the_work_inside_is_cancelled():
    with cancellable(lambda: True):
        pass
    check_cancelled()
    with cancellable(lambda: False):
        assert decode(markov(vocab_size=12), PaddedTokens.from_lists(SOURCE), limit=LengthLimit(0.0, 4))
    assert torch.is_grad_enabled()
