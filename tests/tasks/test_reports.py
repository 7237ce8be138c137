"""Reports as JSON: written reports are read, invalid files are named, and reports of 0.1 are converted."""

import json
import math

import pytest

from regard.contracts.report import Column, Metric, Report, ReportTable, RunInfo, Speed
from regard.tasks import read_report, report_of, write_report

INFO = RunInfo(
    task="translation",
    system="bahdanau",
    data="multi30k en-de",
    split="test",
    examples=1000,
    search="beam 5",
    parameters=12_000_000,
    steps=5000,
    seed=1,
)
REPORT = Report(
    info=INFO,
    metrics=(
        Metric(name="bleu", value=35.25, title="BLEU", signature="nrefs:1|case:mixed", format=".2f"),
        Metric(name="exact_match", value=0.125, title="exact match", format=".1%"),
    ),
    tables=(
        ReportTable(
            name="by_length",
            title="by length",
            columns=(Column(name="length", title="length"), Column(name="value", title="BLEU", format=".2f")),
            rows=(("0-10", 36.5), ("11+", None), ("all", 3)),
        ),
    ),
    notes=("a note",),
    warnings=("a warning",),
    speed=Speed(seconds=4.0, count=1000, unit="tokens", hardware="one core"),
)


def test_a_report_equals_itself_after_writing_and_reading():
    assert read_report(write_report(REPORT)) == REPORT
    bare = Report(info=INFO, metrics=())
    assert read_report(write_report(bare)) == bare
    assert REPORT.speed.per_second == 250.0


def test_metrics_and_tables_are_found_by_name():
    assert REPORT.metric("exact_match").value == 0.125 and REPORT.metric("chrf") is None
    assert REPORT.table("by_length").rows[0] == ("0-10", 36.5) and REPORT.table("confusion") is None


def test_numbers_that_json_lacks_are_written_as_strings():
    values = (math.inf, -math.inf, math.nan)
    lost = Report(info=INFO, metrics=tuple(Metric(name="perplexity", value=one, title="perplexity") for one in values))
    text = write_report(lost)
    assert "Infinity" not in text and "NaN" not in text
    again = [metric.value for metric in read_report(text).metrics]
    assert again[:2] == [math.inf, -math.inf] and math.isnan(again[2])


def change_counts(**changes):
    return json.dumps(json.loads(write_report(REPORT)) | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the report is not valid JSON"),
        ("[]", r"report is \[\], expected Report"),
        ("{}", "report has no info, and needs one"),
        (change_counts(metics=1), "report has no 'metics'; the nearest is 'metrics'"),
        (
            change_counts(metrics=[{"name": "a", "value": "good", "title": "A"}]),
            r"metrics\[0\]\.value is \"good\", expected a",
        ),
        (change_counts(metrics=[{"name": "a", "value": 1.0}]), r"report\.metrics\[0\] has no title"),
        (change_counts(metrics=[3]), r"report\.metrics\[0\] is 3, expected Metric"),
        (change_counts(info=None), "report.info is null, expected RunInfo"),
        (
            change_counts(tables=[{"name": "a", "title": "A", "columns": [], "rows": [["a", []]]}]),
            r"rows\[0\]\[1\] is \[\]",
        ),
        (json.dumps({"circumstances": {}, "bleu": None}), "report.circumstances has no system"),
        (json.dumps({"circumstances": 3, "likelihood": 3, "reaches": 3}), "the report is incomplete"),
    ],
)
def test_a_wrong_file_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        read_report(text)


def test_a_speed_needs_a_positive_time():
    with pytest.raises(ValueError, match=r"seconds=0\.0 must be more than 0"):
        Speed(seconds=0.0, count=1, unit="tokens", hardware="one core")


CIRCUMSTANCES = {
    "system": "bahdanau",
    "data": "multi30k en-de tok",
    "split": "test",
    "sentences": 1000,
    "search": "beam 5",
    "parameters": 12,
    "steps": 5,
    "seed": 1,
}
SPEED = {"seconds": 2.0, "tokens": 50, "tokens_per_second": 25.0, "hardware": "one core"}


def test_a_translation_report_of_0_1_is_converted():
    old = {
        "circumstances": CIRCUMSTANCES,
        "bleu": None,
        "bleu_tokenised": {"score": 36.0, "signature": "case:lc", "name": "BLEU, tokenised lower-case"},
        "chrf": {"score": 60.0, "signature": "nc:6", "name": "chrF2"},
        "exact_match": 0.5,
        "perplexity": {"nats": 1e9, "tokens": 1, "perplexity": "inf"},
        "by_length": [
            {"first": 0, "last": 10, "count": 700, "value": 36.5},
            {"first": 11, "last": None, "count": 0, "value": None},
        ],
        "speed": SPEED,
    }
    report = report_of(old)
    assert report.info.task == "translation" and report.info.examples == 1000
    assert [metric.name for metric in report.metrics] == ["bleu_tokenised", "chrf", "exact_match", "perplexity"]
    assert report.metric("bleu_tokenised").signature == "case:lc" and report.metric("perplexity").value == math.inf
    assert report.table("by_length").rows == (("0-10", 700, 36.5),)
    assert report.speed == Speed(seconds=2.0, count=50, unit="tokens", hardware="one core")
    toy = report_of(old | {"circumstances": CIRCUMSTANCES | {"data": "copy"}})
    assert toy.metrics[0].name == "exact_match", "exact match is the main metric of synthetic corpora"
    with pytest.raises(ValueError, match=r"report\.chrf\.score is \"high\", expected a number"):
        report_of(old | {"chrf": {"score": "high", "signature": "", "name": ""}})


def test_a_language_report_of_0_1_is_converted():
    old = {
        "circumstances": CIRCUMSTANCES,
        "reading": "one stream, the state carried",
        "likelihood": {"nats": 20.0, "tokens": 10, "words": 5, "characters": 30, "unknown": 1},
        "perplexity": math.exp(4.0),
        "perplexity_per_token": math.exp(2.0),
        "bits_per_character": 1.0,
        "loss": 2.0,
        "reaches": [{"path": "attention", "spans": [1, 2], "within": [0.5, 1.0], "distance": 1.5, "looks": 9}],
        "speed": None,
    }
    report = report_of(old)
    assert report.info.task == "language_modeling" and report.speed is None
    assert report.metrics[0].value == pytest.approx(math.exp(4.0))
    assert report.metrics[0].signature == "one stream, the state carried"
    assert report.table("counts").rows == ((10, 5, 30, 1, 20.0),)
    assert report.table("attention_distance").rows[0] == ("attention", 0.5, 1.0, 1.5, 9)


def test_a_classification_report_of_0_1_is_converted():
    old = {
        "circumstances": CIRCUMSTANCES,
        "accuracy": 0.75,
        "log_loss": None,
        "classes": [
            {"label": "a", "there": 2, "said": 3, "right": 2, "precision": 2 / 3, "recall": 1.0, "f1": 0.8},
            {"label": "b", "there": 0, "said": 0, "right": 0, "precision": None, "recall": None, "f1": None},
        ],
        "confusion": [{"label": "a", "counts": [2, 0]}, {"label": "b", "counts": [0, 0]}],
        "unseen": [{"label": "c", "counts": [1, 0]}],
        "overlap": {"cosine": 0.5, "penalty": 2.0},
        "speed": SPEED,
    }
    report = report_of(old)
    assert report.info.task == "text_classification"
    assert {metric.name: metric.value for metric in report.metrics} == {
        "accuracy": 0.75,
        "macro_f1": 0.8,
        "overlap": 0.5,
        "overlap_penalty": 2.0,
    }
    assert report.table("classes").rows[0] == ("a", 2, 3, 2, 2 / 3, 1.0, 0.8)
    assert report.table("confusion").rows[-1] == ("c", 1, 0, "never seen in training")
