"""Verdicts, tables and figures of the experiments in Chinese, whichever way the numbers fall."""

import re
from xml.etree import ElementTree

import pytest

from regard.data.corpora import InventedLanguage
from regard.display import drawn_bytes
from regard.experiments import EXPERIMENTS
from regard.experiments.attention_span import judge as judge_span
from regard.experiments.attention_span import make_finding
from regard.experiments.causal_mask import Language, Trained
from regard.experiments.causal_mask import judge as judge_mask
from regard.experiments.cost import LENGTHS as COST_LENGTHS
from regard.experiments.lib import chinese_labels, format_cell, label
from tests.experiments.test_attention_span import EVEN, results_of

NAMES = (
    "softmax|tanh|log|an|Var|RoPE|ALiBi|CPU|MLP|CNN|GPT|TTT|LSTM|RNN|gram|Seq2Seq|Seq|Bahdanau|"
    "Key-Value-Predict|Key-Value|Attention|IBM Model|fast_align"
)
SIZES = {
    "pooling": {"repeats": 2, "points": 8, "steps": 2, "sizes": (8, 16)},
    "scaling": {"sizes": (4, 16), "repeats": 2, "num_queries": 4, "num_keys": 4},
    "embedding_scale": {"sizes": (8, 16), "vocab_size": 4, "num_positions": 4},
    "permutation": {"repeats": 2, "hidden_size": 8, "num_heads": 2, "length": 4},
    "cost": {"turns": 2, "size": 8, "num_heads": 2, "lengths": dict.fromkeys(COST_LENGTHS, (4, 8, 16))},
    "heads_specialise": {"repeats": 2, "steps": 2, "size": 8, "num_heads": 1, "length": 8, "num_symbols": 4},
    "one_state_three_rules": {"repeats": 2, "steps": 2, "sizes": (4,), "pairs": (2, 4), "num_symbols": 8},
    "causal_mask": {"repeats": 2, "steps": 10, "size": 8, "num_symbols": 4, "length": 6},
    "dot_against_cosine": {"repeats": 2, "steps": 2, "spreads": (0.5, 1.0)},
    "dynamic_weights": {"repeats": 2, "steps": 2, "head_size": 4, "num_heads": 2, "length": 4},
    "ngram_tables": {"repeats": 2, "orders": 2, "equal_order": 1, "vocab_size": 40, "epochs": 1, "characters": 3000},
    "separate_values": {"repeats": 2, "steps": 2, "hidden_size": 8, "heads": (1, 2), "length": 4},
    "score_cost": {"turns": 3, "lengths": (4, 8)},
    "shift": {"repeats": 2, "hidden_size": 8, "num_heads": 2, "frame": 12, "block": 4},
    "bottleneck": {"seeds": 2, "steps": 2, "size": 4, "num_words": 3, "trained": (1, 2), "lengths": (1, 2, 3)},
    "distance": {"seeds": 2, "steps": 2, "size": 4, "num_symbols": 3, "distances": (1, 4)},
    "gradients": {"seeds": 2, "size": 4, "distances": (1, 2, 4), "depths": (1, 2)},
    "parallelism": {"rounds": 2, "repeats": 1, "size": 4, "tokens": 16, "lengths": (4, 8, 16)},
    "own_outputs": {
        "seeds": 2,
        "steps": 2,
        "size": 4,
        "num_symbols": 4,
        "num_words": 3,
        "length": 3,
        "examples": 4,
    },
    "alignment": {"repeats": 2, "num_pairs": 20, "num_test": 4, "steps": 2, "hidden_size": 8},
    "directions": {"seeds": 2, "steps": 2, "size": 4},
    "feed_forward": {"seeds": 2, "steps": 2, "size": 8, "length": 4},
}


INVENTED = {
    word for pair in InventedLanguage().pairs(500, split="test") for word in f"{pair.source} {pair.target}".split()
}
"""Words of a test sentence, which a figure shows."""


def english_in(text):
    """English words: two letters or more that are no name and no invented word."""
    return [] if text in INVENTED else re.findall(r"[A-Za-z]{2,}", re.sub(NAMES, "", text))


@pytest.fixture(scope="module", params=[*SIZES, "attention_span"])
def finding(request):
    if request.param == "attention_span":
        return make_finding(results_of())
    return EXPERIMENTS[request.param].run(seed=0, **SIZES[request.param])


def test_the_verdict_is_chinese_and_has_the_numbers_of_the_english_one(finding):
    english, chinese = (re.findall(r"\d+\.\d+", text) for text in (finding.verdict.en, finding.verdict.zh))
    assert sorted(english) == sorted(chinese)
    assert english_in(finding.verdict.zh) == []


def test_punctuation_beside_chinese_is_chinese(finding):
    for text in (finding.claim.zh, finding.verdict.zh):
        assert re.findall(r"[\u4e00-\u9fff][,;:()]|[,;:()][\u4e00-\u9fff]|[{}]", text) == []
        assert text.endswith("。") and "。。" not in text


def test_tables_and_figures_have_chinese_labels(finding):
    with chinese_labels(EXPERIMENTS[finding.name].chinese):
        cells = [format_cell(cell) for row in finding.rows for cell in row.values()]
        texts = [label(text) for text in (*finding.columns, *cells)]
        svg = ElementTree.fromstring(drawn_bytes(finding.draw, ("svg",))["svg"])
    drawn = ["".join(one.itertext()) for one in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert len(drawn) > 10
    assert [text for text in (*texts, *drawn) if english_in(text)] == []


def test_outside_of_the_context_labels_are_english(finding):
    assert [label(column) for column in finding.columns] == list(finding.columns)


def test_verdicts_that_go_the_other_way_are_chinese_too():
    language = Language(num_symbols=8, length=12)
    good = Trained(losses=[0.75] * 20, masked_loss=0.75, legal=[1.0] * 4)
    _, verdict = judge_mask([good] * 2, [good] * 2, language)
    assert "没有骤降" in verdict.zh and "它能生成" in verdict.zh
    _, verdict = judge_span(results_of(within=EVEN))
    assert "并不主要" in verdict.zh
