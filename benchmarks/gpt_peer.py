"""The GPT-2 of transformers, with the same weights as ours.

Its projections are `Conv1D`s, whose matrices are transposed, with queries, keys and values in one.
"""

from typing import Any

import torch
from torch import Tensor

from regard.models.language_modeling.gpt import GPT


def same_gpt2(model: GPT) -> Any:
    """A GPT2LMHeadModel with our model's weights, in its precision and on its device; without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = model.config
    config = GPT2Config(
        vocab_size=sizes.vocab_size,
        n_positions=sizes.context,
        n_embd=sizes.hidden_size,
        n_layer=sizes.num_layers,
        n_head=sizes.num_heads,
        n_inner=sizes.feed_forward_size,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    peer = GPT2LMHeadModel(config).to(model.readout.weight)
    missing, unexpected = peer.load_state_dict(renamed(model), strict=False)
    assert not unexpected, unexpected
    assert all(name.endswith(("attn.bias", "attn.masked_bias")) for name in missing), missing
    return peer.eval()


def renamed(model: GPT) -> dict[str, Tensor]:
    """Our weights under GPT-2's names, in its layout."""
    weights = {
        "transformer.wte.weight": model.embedding.weight,
        "transformer.wpe.weight": model.positions.table.weight,
        "transformer.ln_f.weight": model.norm.weight,
        "transformer.ln_f.bias": model.norm.bias,
        "lm_head.weight": model.embedding.weight,
    }
    for number, layer in enumerate(model.layers):
        mine = {
            "ln_1": layer.attention_norm.norm,
            "ln_2": layer.feed_forward_norm.norm,
            "attn.c_proj": layer.attention.output_proj,
            "mlp.c_fc": layer.feed_forward.hidden,
            "mlp.c_proj": layer.feed_forward.output,
        }
        for name, part in mine.items():
            weights[f"transformer.h.{number}.{name}.weight"] = part.weight if "ln" in name else part.weight.T
            weights[f"transformer.h.{number}.{name}.bias"] = part.bias
        projs = [layer.attention.query_proj, layer.attention.key_proj, layer.attention.value_proj]
        joined = f"transformer.h.{number}.attn.c_attn"
        weights[f"{joined}.weight"] = torch.cat([proj.weight.T for proj in projs], dim=1)
        weights[f"{joined}.bias"] = torch.cat([proj.bias for proj in projs])
    return weights
