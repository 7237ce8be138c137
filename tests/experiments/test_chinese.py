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
from regard.experiments.lib import chinese_labels, format_cell, label
from tests.experiments.test_attention_span import EVEN, results_of
from tests.experiments.test_finding import SMALL

NAMES = (
    "softmax|tanh|log|an|Var|RoPE|ALiBi|CPU|MLP|CNN|GPT|TTT|LSTM|RNN|gram|Seq2Seq|Seq|Bahdanau|"
    "Key-Value-Predict|Key-Value|Attention|IBM Model|fast_align"
)
SIZES = {name: sizes for name, sizes in SMALL.items() if name != "attention_span"}
"""The sizes of every experiment but one, whose runs are given below."""


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
