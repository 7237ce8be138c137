"""Joey NMT's models at our sizes, trained as its own trainer does: sorted batches, masks, the loss it prints.

Its conventions differ from ours (pre-norm by default, marks in another order), so the weights are not the same ones; the
sizes are, and the batches. It is a peer for speed alone.
"""

from collections.abc import Callable
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from regard.contracts import BOS, EOS, PAD, UNK, Sequences

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
"""The marks in the order in which Joey NMT numbers them."""


def joey_model(sizes: dict[str, Any], *, vocab_size: int, label_smoothing: float, **settings: Any) -> nn.Module:
    """Encoder and decoder of these sizes, in Joey NMT's own words; `settings` are about both."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    vocabulary = Vocabulary([str(number) for number in range(4, vocab_size)], MARKS)
    config = {"encoder": dict(sizes["encoder"]), "decoder": dict(sizes["decoder"]), **settings}
    model: Any = build_model(config, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", label_smoothing)
    return model


def joey_transformer_sizes(*, hidden_size: int, num_layers: int, num_heads: int, feed_forward_size: int) -> dict[str, Any]:
    """A Transformer's sizes."""
    side = {
        "type": "transformer",
        "num_layers": num_layers,
        "num_heads": num_heads,
        "embeddings": {"embedding_dim": hidden_size, "scale": True},
        "hidden_size": hidden_size,
        "ff_size": feed_forward_size,
        "dropout": 0.1,
        "layer_norm": "post",
    }
    return {"encoder": side, "decoder": side}


def joey_batch(rows: Rows) -> Any:
    """A batch with Joey NMT's numbers for the marks, sorted by source length."""
    from joeynmt.batch import Batch

    source = Sequences.of([source for source, _ in rows])
    target = Sequences.of([[BOS, *target, EOS] for _, target in rows])
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


def their_ids(rows: Sequences) -> Tensor:
    """Our numbers of the marks to theirs; words keep theirs."""
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
