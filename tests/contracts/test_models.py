"""The checks of regard.testing over every translation model: a new entry, or a variant, is tested by being listed."""

import pytest

from regard.models.translation import TRANSLATION_MODELS
from regard.testing import MODEL_CHECKS, TranslationCase
from regard.testing.models import SOURCES, TARGETS
from tests.contracts.listed import assert_table_is_sound, each, maker, small_config, with_variants

__all__ = ["SOURCES", "TARGETS", "make", "make_case"]

SIZES = {
    "source_vocab_size": 11,
    "target_vocab_size": 13,
    "embedding_size": 6,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "feed_forward_size": 16,
    "alignment_size": 5,
    "maxout_size": 7,
    "max_width": 3,
    "kernel_size": 3,
    "max_length": 12,
    "window": 2,
    "shared_embeddings": False,
}


def make_case(name, change):
    entry = TRANSLATION_MODELS[name]
    return TranslationCase(
        build=entry.build,
        config=small_config(entry, SIZES, change),
        attends=entry.attends,
        # the weights of a local window may sum to less
        sums_to_one=not any(name in str(value) for value in change.values() for name in ("local_predictive", "mono")),
        packs=entry.packs,
    )


make = maker(make_case)


@each(MODEL_CHECKS)
@pytest.mark.parametrize(("name", "change"), with_variants(TRANSLATION_MODELS))
def test_keeps_the_contract(name, change, check):
    check(make_case(name, change))


def test_the_table_is_in_history_order():
    assert_table_is_sound(TRANSLATION_MODELS)


@pytest.mark.parametrize("name", TRANSLATION_MODELS)
def test_every_field_of_a_config_has_a_default(name):
    assert TRANSLATION_MODELS[name].config().source_vocab_size > 4
