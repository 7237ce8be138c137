"""The checks of regard.testing over every classifier of texts: a new entry, or a variant, is tested by being listed."""

import pytest
import torch

from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.testing import CLASSIFIER_CHECKS, ClassifierCase
from tests.contracts.listed import assert_table_is_sound, each, maker, small_config, with_variants

__all__ = ["labelled", "make", "make_case"]

SIZES = {
    "vocab_size": 11,
    "num_classes": 3,
    "embedding_size": 6,
    "hidden_size": 8,
    "attention_size": 5,
    "num_rows": 4,
    "classifier_size": 7,
    "num_maps": 5,
    "num_layers": 2,
    "num_heads": 2,
    "feed_forward_size": 16,
}


def make_case(name, change):
    entry = TEXT_CLASSIFICATION_MODELS[name]
    config = small_config(entry, SIZES, change)
    return ClassifierCase(build=entry.build, config=config, attends=entry.attends)


make = maker(make_case)


def labelled():
    return make_case("cnn", {}).batch(torch.nn.Module())


@each(CLASSIFIER_CHECKS)
@pytest.mark.parametrize(("name", "change"), with_variants(TEXT_CLASSIFICATION_MODELS))
def test_keeps_the_contract(name, change, check):
    check(make_case(name, change))


@pytest.mark.parametrize("name", TEXT_CLASSIFICATION_MODELS)
def test_a_share_of_words_above_one_is_refused(name):
    with pytest.raises(ValueError, match=r"word_dropout is 1\.5, expected a share between 0 and 1"):
        make_case(name, {}).make(word_dropout=1.5)


def test_the_table_is_in_history_order():
    assert_table_is_sound(TEXT_CLASSIFICATION_MODELS)
