"""The libraries that our Transformer is measured against, with the same weights.

MarianMT (transformers) is the same architecture: post-norm, ReLU, scaled and shared embeddings, fixed sinusoids. Its
table of positions is overwritten with our interleaved one, so the same weights give the same numbers. CTranslate2 takes
its weights from there. A peer that is not installed is skipped with a word.
"""

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.translation_pairs import SEED
from regard.attention.positions import Sinusoidal
from regard.contracts import BOS, EOS, PAD, UNK
from regard.models.translation.transformer import Transformer, TransformerConfig

POSITIONS = 256
"""Longer than any sentence of the benchmarks."""

LABEL_SMOOTHING = 0.1

NAMES = {
    "target_embedding.table": "model.shared",
    "encoder.": "model.encoder.layers.",
    "decoder.": "model.decoder.layers.",
    "cross_attention_norm.norm": "encoder_attn_layer_norm",
    "cross_attention": "encoder_attn",
    "self_attention_norm.norm": "self_attn_layer_norm",
    "self_attention": "self_attn",
    "feed_forward_norm.norm": "final_layer_norm",
    "feed_forward.hidden": "fc1",
    "feed_forward.output": "fc2",
    "attention_norm.norm": "self_attn_layer_norm",
    "attention.": "self_attn.",
    "query_proj": "q_proj",
    "key_proj": "k_proj",
    "value_proj": "v_proj",
    "output_proj": "out_proj",
}
"""Our parameters' names to MarianMT's, replaced in this order."""


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Dropout of a Transformer: sub-layer outputs and embeddings, attention weights, inside the feed-forward."""

    states: float
    weights: float
    hidden: float


def versions(*names: str) -> dict[str, str]:
    """The measured release of each package, or "not installed"."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def available(name: str) -> bool:
    """Whether a peer can be imported; prints a line if it cannot."""
    try:
        __import__(name)
    except ImportError as error:
        print(f"{name} is skipped: {error}")
        return False
    return True


def our_model(config: TransformerConfig) -> Transformer:
    """Our side, from the seed."""
    torch.manual_seed(SEED)
    return Transformer(config)


def same_marian(model: Transformer) -> nn.Module:
    """MarianMT with our model's sizes, dropout and weights."""
    theirs = empty_marian(model.config, dropout_of(model))
    copy_weights(model, theirs)
    return theirs.train(model.training)


def empty_marian(config: TransformerConfig, dropout: Dropout) -> nn.Module:
    """MarianMT of these sizes, with SDPA."""
    from transformers import MarianConfig, MarianMTModel

    settings = MarianConfig(
        vocab_size=config.source_vocab_size,
        max_position_embeddings=POSITIONS,
        encoder_layers=config.num_layers,
        decoder_layers=config.num_layers,
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        encoder_ffn_dim=config.feed_forward_size,
        decoder_ffn_dim=config.feed_forward_size,
        d_model=config.hidden_size,
        dropout=dropout.states,
        attention_dropout=dropout.weights,
        activation_dropout=dropout.hidden,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    return MarianMTModel(settings)


def dropout_of(model: Transformer) -> Dropout:
    """The dropout rates of our model."""
    layer = model.encoder[0]
    return Dropout(states=model.config.dropout, weights=layer.attention.dropout, hidden=layer.feed_forward.dropout.p)


@torch.no_grad()
def copy_weights(model: Transformer, marian: nn.Module) -> None:
    """Our parameters into MarianMT's, every one of them, and our positions over its own."""
    theirs = dict(marian.named_parameters())
    positions = Sinusoidal(hidden_size=model.config.hidden_size).encode(torch.arange(POSITIONS))
    for side in ("encoder", "decoder"):
        theirs.pop(f"model.{side}.embed_positions.weight").copy_(positions)
    for name, parameter in model.named_parameters():
        for ours, their in NAMES.items():
            name = name.replace(ours, their)  # noqa: PLW2901 - one name, translated step by step
        theirs.pop(name).copy_(parameter)
    assert not theirs, f"without a counterpart: {', '.join(theirs)}"


def label_smoothed(logits: Tensor, labels: Tensor, num_tokens: int) -> Tensor:
    """The loss that both sides minimise, as plain torch does it; faster than the Trainer's own LabelSmoother."""
    total = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=LABEL_SMOOTHING, reduction="sum"
    )
    return total / num_tokens


def marian_generate(
    model: nn.Module, source: Tensor, mask: Tensor, *, beam_size: int, max_tokens: int
) -> list[list[int]]:
    """Best hypotheses without special tokens."""
    with torch.inference_mode():
        found = model.generate(
            input_ids=source,
            attention_mask=mask,
            num_beams=beam_size,
            do_sample=False,
            max_new_tokens=max_tokens,
            length_penalty=1.0,
            early_stopping=beam_size > 1,
        )
    return [without_marks(row) for row in found[:, 1:].tolist()]


def without_marks(ids: list[int]) -> list[int]:
    """The tokens before <eos>."""
    return ids[: ids.index(EOS)] if EOS in ids else ids


def save_ctranslate2(marian: nn.Module, folder: Path) -> None:
    """CTranslate2's loader for this family, without its change of Marian's <pad>: the decoder starts with <bos>."""
    from ctranslate2.converters.transformers import BartLoader

    vocabulary = [str(token) for token in range(marian.config.vocab_size)]
    marian.config.normalize_before = marian.config.normalize_embedding = False
    with torch.no_grad():
        spec = BartLoader().get_model_spec(marian)
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (str(mark) for mark in (BOS, EOS, UNK))
    spec.config.decoder_start_token = str(BOS)
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))
