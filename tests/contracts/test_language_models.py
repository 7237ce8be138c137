"""The checks of regard.testing over every language model: a new entry, or a new variant, is tested by being listed."""

import pytest
import torch

from regard.models.language_modeling import LANGUAGE_MODELS, NGram
from regard.testing import LANGUAGE_MODEL_CHECKS, LanguageModelCase
from regard.testing.language_models import TOKENS
from tests.contracts.listed import assert_table_is_sound, each, maker, small_config, with_variants

__all__ = ["ROLLING", "TOKENS", "make", "make_case"]

SIZES = {
    "vocab_size": 13,
    "embedding_size": 6,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "feed_forward_size": 16,
    "max_length": 32,
    "context": 32,
    "window": 3,
    "span": 3,
}

ROLLING = {"mlp", "lstm", "lstmn", "attention", "key_value", "key_value_predict", "ngram_rnn"}
"""Models whose state has one shape, for any number of tokens."""


def count(config):
    """N-grams are counted from a text."""
    return NGram.count(torch.cat([TOKENS.flatten(), TOKENS.flip(0).flatten()]), config)


def make_case(name, change):
    entry = LANGUAGE_MODELS[name]
    tied = {"embedding_size": SIZES["hidden_size"]} if change.get("tied") else {}
    return LanguageModelCase(
        build=count if name == "ngram" else entry.build,
        config=small_config(entry, SIZES | tied, change),
        fixed_state=name in ROLLING,
        counts=name == "ngram",
    )


make = maker(make_case)


@each(LANGUAGE_MODEL_CHECKS)
@pytest.mark.parametrize(("name", "change"), with_variants(LANGUAGE_MODELS))
def test_keeps_the_contract(name, change, check):
    check(make_case(name, change))


def test_the_table_is_in_history_order():
    assert_table_is_sound(LANGUAGE_MODELS)
