import logging
import math

import pytest

from regard.metrics import Detokenised, TokenisedLowercase, bleu, chrf, exact_match

HYPOTHESES = ["The cat sat on the mat.", "A dog barks."]
REFERENCES = ["The cat sat on the red mat.", "A dog barks."]


def test_bleu_equals_the_formula():
    # 13a separates the full stop: 7 + 4 tokens against 8 + 4; matches of n-grams 1..4 by hand
    precisions = (11 / 11, 8 / 9, 5 / 7, 3 / 5)
    expected = 100 * math.exp(1 - 12 / 11) * math.prod(precisions) ** (1 / 4)
    assert bleu(HYPOTHESES, REFERENCES).score == pytest.approx(expected)


def test_signature_and_name_identify_the_variant():
    cased = bleu(HYPOTHESES, REFERENCES)
    assert cased.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert cased.name == "BLEU"
    lower = bleu(HYPOTHESES, REFERENCES, form=TokenisedLowercase())
    assert lower.signature.startswith("nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:")
    assert lower.name == "BLEU, tokenised lower-case"
    assert chrf(HYPOTHESES, REFERENCES).signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_only_one_variant_ignores_case():
    shouted = [line.upper() for line in REFERENCES]
    assert bleu(shouted, REFERENCES).score < 50
    assert bleu(shouted, REFERENCES, form=TokenisedLowercase()).score == pytest.approx(100)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("de", "13a"), ("zh", "zh"), ("zh_CN", "zh"), ("ZH-Hans", "zh"), ("cmn", "zh"), ("ja", "char"), ("jpn", "char")],
)
def test_a_language_has_its_tokenizer(language, tokenizer):
    text = ["我们今天去看电影。"]
    assert f"|tok:{tokenizer}|" in bleu(text, text, form=Detokenised(language)).signature


def test_chinese_is_tokenized_by_characters():
    hypothesis, reference = ["我们今天去看电影"], ["我们今天去听音乐"]
    assert bleu(hypothesis, reference).score == 0
    assert bleu(hypothesis, reference, form=Detokenised("zh")).score > 30


def test_tokenised_text_gives_no_warning(caplog):
    lines = ["a dog barks ."] * 100
    with caplog.at_level(logging.WARNING):
        bleu(lines, lines, form=TokenisedLowercase())
    assert not caplog.records


def test_perfect_and_disjoint_translations():
    assert bleu(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert chrf(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert bleu(["", ""], REFERENCES).score == 0
    assert chrf(["", ""], REFERENCES).score == 0


def test_exact_match_is_a_share():
    assert exact_match(HYPOTHESES, REFERENCES) == 0.5
    assert exact_match(["a "], ["a"]) == 0


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match])
def test_wrong_lists_are_refused(metric):
    with pytest.raises(ValueError, match="there are 2 hypotheses but 1 references"):
        metric(HYPOTHESES, REFERENCES[:1])
    with pytest.raises(ValueError, match="nothing to evaluate"):
        metric([], [])
    with pytest.raises(TypeError, match="hypotheses is one string"):
        metric("The cat", ["The cat"])
