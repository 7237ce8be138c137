import json
import math

import pytest

from regard.evaluation import Circumstances, LengthBucket, Perplexity, Quality, Report, Speed

CIRCUMSTANCES = Circumstances(
    system="bahdanau",
    data="multi30k en-de",
    split="test",
    sentences=1000,
    search="beam 5",
    parameters=12_000_000,
    steps=5000,
    seed=1,
)
REPORT = Report(
    circumstances=CIRCUMSTANCES,
    bleu=Quality(35.25, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0", "BLEU"),
    bleu_tokenised=Quality(36.0, "nrefs:1|case:lc", "BLEU, tokenised lower-case"),
    chrf=Quality(60.125, "nrefs:1|nc:6", "chrF2"),
    exact_match=0.125,
    perplexity=Perplexity.of(nats=2000.0, tokens=1000),
    by_length=(LengthBucket(0, 10, 700, 36.5), LengthBucket(11, None, 0, None)),
    speed=Speed.of(seconds=4.0, tokens=1000, hardware="one core"),
)


def test_a_report_survives_its_file():
    assert Report.from_json(REPORT.to_json()) == REPORT
    bare = Report(circumstances=CIRCUMSTANCES)
    assert Report.from_json(bare.to_json()) == bare


def test_the_file_holds_what_a_table_shows():
    values = json.loads(REPORT.to_json())
    assert values["perplexity"] == {"nats": 2000.0, "tokens": 1000, "perplexity": math.exp(2)}
    assert values["speed"]["tokens_per_second"] == 250.0
    assert values["by_length"][1] == {"first": 11, "last": None, "count": 0, "value": None}
    assert values["bleu"]["signature"].startswith("nrefs:1|case:mixed")


def test_numbers_that_json_lacks_are_words():
    lost = Report(circumstances=CIRCUMSTANCES, perplexity=Perplexity.of(nats=1e9, tokens=1), exact_match=math.nan)
    text = lost.to_json()
    assert "Infinity" not in text and "NaN" not in text
    again = Report.from_json(text)
    assert again.perplexity == lost.perplexity
    assert math.isnan(again.exact_match)


def changed(**changes):
    return json.dumps(json.loads(REPORT.to_json()) | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no report, for it is no JSON"),
        ("[]", r"report is \[\], expected Report"),
        ("{}", "report lacks circumstances, bleu"),
        (changed(blue=1), "report has no field 'blue'. The nearest is 'bleu'"),
        (changed(exact_match="good"), 'report.exact_match is "good", expected float'),
        (changed(bleu={"score": 1.0, "name": "BLEU"}), "report.bleu lacks signature"),
        (changed(by_length=[3]), r"report.by_length\[0\] is 3, expected LengthBucket"),
        (changed(circumstances=None), "report.circumstances is null, expected Circumstances"),
    ],
)
def test_a_wrong_file_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Report.from_json(text)


def test_time_must_have_passed():
    with pytest.raises(ValueError, match=r"seconds=0\.0 must be more than 0"):
        Speed.of(seconds=0.0, tokens=1, hardware="one core")
