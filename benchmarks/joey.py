"""Joey NMT's Transformer and RNN at our sizes, trained and searched by its own functions: peers for speed alone.

Its parameters have another layout and its special tokens other ids, so the weights differ from ours; sizes and batches
are equal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from regard.contracts import BOS, EOS, PAD, UNK, PaddedTokens
from regard.models.translation.transformer import TransformerConfig

Rows = list[tuple[list[int], list[int]]]

MARKS = SimpleNamespace(
    unk_token="<unk>",
    pad_token="<pad>",
    bos_token="<s>",
    eos_token="</s>",
    sep_token=None,
    unk_id=0,
    pad_id=1,
    bos_id=2,
    eos_id=3,
    sep_id=None,
    lang_tags=[],
)
"""The special tokens in the order of Joey NMT's ids."""


def joey_transformer(config: TransformerConfig, *, label_smoothing: float = 0.0) -> nn.Module:
    """Joey NMT's Transformer of our sizes, one table for both sides and the readout."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    side = {
        "type": "transformer",
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "embeddings": {"embedding_dim": config.hidden_size, "scale": True},
        "hidden_size": config.hidden_size,
        "ff_size": config.feed_forward_size,
        "dropout": config.dropout,
        "layer_norm": config.norm,
    }
    settings = {"encoder": side, "decoder": side, "tied_embeddings": True, "tied_softmax": True}
    vocabulary = Vocabulary([str(number) for number in range(4, config.target_vocab_size)], MARKS)
    torch.manual_seed(0)
    model: Any = build_model(settings, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", label_smoothing)
    return model


@dataclass(frozen=True, kw_only=True)
class JoeyRNN:
    """Sizes of a recurrent encoder-decoder; the encoder is bidirectional, with `encoder_size` units each."""

    vocab_size: int
    embedding_size: int
    hidden_size: int
    encoder_size: int
    num_layers: int
    cell: str
    attention: str
    dropout: float


def joey_recurrent(sizes: JoeyRNN, *, label_smoothing: float = 0.0) -> nn.Module:
    """Joey NMT's RNN with input feeding, with its default settings."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    side = {
        "type": "recurrent",
        "rnn_type": sizes.cell,
        "num_layers": sizes.num_layers,
        "embeddings": {"embedding_dim": sizes.embedding_size},
        "dropout": sizes.dropout,
    }
    encoder = side | {"hidden_size": sizes.encoder_size, "bidirectional": True}
    decoder = side | {
        "hidden_size": sizes.hidden_size,
        "attention": sizes.attention,
        "hidden_dropout": sizes.dropout,
        "init_hidden": "bridge",
        "input_feeding": True,
    }
    vocabulary = Vocabulary([str(number) for number in range(4, sizes.vocab_size)], MARKS)
    torch.manual_seed(0)
    model: Any = build_model({"encoder": encoder, "decoder": decoder}, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", label_smoothing)
    return model


def joey_batch(rows: Rows) -> Any:
    """A batch with Joey NMT's ids of special tokens, sorted by source length."""
    from joeynmt.batch import Batch

    source = PaddedTokens.from_lists([source for source, _ in rows])
    target = PaddedTokens.from_lists([[BOS, *target, EOS] for _, target in rows])
    batch = Batch(
        src=their_ids(source),
        src_length=source.lengths,
        src_prompt_mask=None,
        trg=their_ids(target),
        trg_prompt_mask=None,
        indices=torch.arange(len(rows)),
        device=torch.device("cpu"),
        pad_index=MARKS.pad_id,
        eos_index=MARKS.eos_id,
        is_train=True,
    )
    batch.sort_by_src_length()
    return batch


def their_ids(rows: PaddedTokens) -> Tensor:
    """Our ids of special tokens to theirs; words have equal ids."""
    changed = rows.ids.clone()
    for ours, theirs in ((PAD, MARKS.pad_id), (BOS, MARKS.bos_id), (EOS, MARKS.eos_id), (UNK, MARKS.unk_id)):
        changed[rows.ids == ours] = theirs
    return changed


def joey_steps(
    model: nn.Module, batches: list[Rows], make_optimizer: Callable[[nn.Module], torch.optim.Optimizer]
) -> Callable[[], float]:
    """A function that trains on the next batch and gives its loss a token."""
    optimizer = make_optimizer(model.train())
    turn = cycle([joey_batch(rows) for rows in batches])

    def step() -> float:
        batch = next(turn)
        loss, *_ = model(return_type="loss", **vars(batch))
        loss = loss / batch.ntokens
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.item())

    return step


def joey_search(
    model: nn.Module, batches: list[list[list[int]]], *, beam_size: int, most: int
) -> Callable[[], list[list[int]]]:
    """Its own search over these sources; with untrained weights every output reaches the limit."""
    from joeynmt.search import search

    batches_of_joey = [joey_batch([(row, []) for row in rows]) for rows in batches]
    for batch in batches_of_joey:
        batch.trg = batch.trg_input = batch.trg_mask = None
    width = 0 if beam_size == 1 else beam_size
    model.eval()
    return lambda: [
        [int(token) for token in row]
        for batch in batches_of_joey
        for row in search(model, batch, max_output_length=most, beam_size=width, beam_alpha=1.0)[0]
    ]
