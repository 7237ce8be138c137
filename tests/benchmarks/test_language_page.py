"""Sections on language models and sentences follow the result files, and omit systems without runs."""

import copy
import json

import pytest

from benchmarks import language_page, sentences, sentences_page
from benchmarks.markdown import over_seeds, seeds_by_name
from benchmarks.results_page import load_runs, page
from benchmarks.trainings import Training
from regard.contracts.report import RunInfo
from regard.metrics import ClassificationQuality, ClassQuality, Likelihood, Overlap, SpanMass
from regard.tasks import write_report
from regard.tasks.language_modeling import evaluate as language_modeling
from regard.tasks.text_classification import evaluate as text_classification

MACHINE = {"date": "2026-01-01", "gpu": "A GPU", "cores": 4, "python": "3.12", "torch": "2.11"}
EQUAL = {"lstm": 85.0, "attention": 82.0, "key_value": 78.0, "key_value_predict": 75.0, "ngram_rnn": 75.2}
SEEDS = range(3)


def info(system, seed):
    return RunInfo(
        task="language_modeling",
        system=system,
        data="ptb",
        split="test",
        examples=9,
        parameters=2_500_000,
        steps=1,
        seed=seed,
    )


def a_report(system, seed, perplexity, *, loss=1.5, reading="one stream, the state carried"):
    attends = system in ("attention", "key_value", "key_value_predict", "lstmn")
    mass = SpanMass(within=(0.4, 0.6, 0.8, 0.9, 1.0), distance=3.5, count=4095)
    report = language_modeling.make_report(
        info(system, seed),
        Likelihood(nats=1.0, tokens=82_430, words=82_430, characters=400_000, unknown=4_794),
        reading=reading,
        distances={"attention": mass} if attends else {},
    )
    plain = json.loads(write_report(report))
    set_metric(plain, "perplexity", perplexity)
    set_metric(plain, "loss", loss)
    return plain


def set_metric(plain, name, value):
    next(metric for metric in plain["metrics"] if metric["name"] == name)["value"] = value


def a_run(name, seed, *, recipe="ptb", **evaluations):
    model = name.removeprefix("equal_")
    sizes = {"embedding_size": 300, "dropout": 0.6, "window": 15, "num_layers": 6, "hidden_size": 384, "context": 256}
    return {
        "command": f"python -m benchmarks.language --data <folder> --seed {seed} {name}",
        "machine": MACHINE,
        "config": {"recipe": recipe, "model_name": model, "model": sizes},
        "training": {"steps": 500, "epochs": 14, "seconds": 60.4, "tokens_per_second": 12345},
        **evaluations,
    }


@pytest.fixture
def runs():
    runs_by_name = {}
    for seed in SEEDS:
        for model, perplexity in EQUAL.items():
            noise = (-1 if model == "ngram_rnn" else 1) * 0.2 * seed
            test, validation = (a_report(model, seed, perplexity + noise + more) for more in (0, 4))
            runs_by_name[f"equal_{model}-{seed}"] = a_run(f"equal_{model}", seed, test=test, validation=validation)
    ngram = a_report("ngram", 0, 141.5)
    runs_by_name["ngram-0"] = a_run("ngram", 0, test=ngram, validation=ngram)
    runs_by_name["ngram-0"]["training"]["tokens_per_second"] = None
    crops = {"test-crops": a_report("gpt", 0, 99.5, reading="crops of 128 tokens, each from the start")}
    runs_by_name["gpt-0"] = a_run(
        "gpt", 0, test=a_report("gpt", 0, 97.25), validation=a_report("gpt", 0, 99.0), **crops
    )
    validation = {"validation": a_report("gpt", 0, 5.0, loss=1.46), "validation-crops": a_report("gpt", 0, 5.0)}
    runs_by_name["shakespeare-0"] = a_run("gpt", 0, recipe="tinyshakespeare", **validation)
    return runs_by_name


def test_the_treebank_table_has_means_spreads_and_published_figures(runs):
    text = "\n".join(language_page.sections(runs, ()))
    assert "over all 82,430 words of the test" in text
    assert "| LSTM | 2014 | 2.50 M | 89.20 ± 0.20 | **85.20 ± 0.20** | 14 | 12,345 | 60 | 3 |" in text
    assert "| n-gram (Kneser-Ney) | 1995 | 2.50 M | 141.50 | **141.50** | 14 |  | 60 | 1 |" in text
    assert "Test perplexity in crops of 128 tokens, each from the start: GPT-2 99.50." in text
    assert "| LSTM, medium | 82.7 (reported) | <https://arxiv.org/abs/1409.2329> |  |" in text
    assert "141 (reported) | <https://arxiv.org/abs/1601.06733> | 141.50 |" in text
    # systems of their own sizes and of equal size are in separate tables
    own, equal = text.split("### At equal parameters")
    assert "| LSTM | 2014" not in own
    assert "| GPT-2 | 2019" not in equal


def test_spans_and_the_verdict_follow_the_runs(runs):
    text = language_page.spans(runs)
    assert "| Key-Value, last 15 | 0.400 ± 0.000 |" in text
    assert "| uniform weights, last 15 | 0.067 | 0.133 | 0.333 | 0.667 | 1.000 | 8.0 |" in text
    assert "**Holds on this text with this training.**" in text
    assert "4-gram RNN is on par" in text
    other = copy.deepcopy(runs)
    for seed in SEEDS:
        set_metric(other[f"equal_key_value-{seed}"]["test"], "perplexity", 99.0 + seed)
    assert "**Does not hold on this text with this training.**" in language_page.spans(other)
    for seed in (1, 2):
        del other[f"equal_lstm-{seed}"]
    assert "hold" not in language_page.spans(other).lower()


def test_the_shakespeare_table_compares_with_nanogpt(runs):
    text = language_page.shakespeare(runs)
    row = "2.50 M | **1.5000** | 1.4600 | 1.4697 (reported) | 500 | 60 | A GPU | 1"
    assert f"| GPT-2, 6 x 384, context 256 | {row} |" in text


def test_systems_without_runs_are_omitted(runs):
    assert language_page.sections({}, ()) == []
    assert sentences_page.sections({}) == []
    assert len(language_page.sections({"ngram-0": runs["ngram-0"]}, ())) == 1
    assert load_runs("a_suite_that_nobody_ran") == {}


def test_generation_is_listed_where_it_was_timed(tmp_path):
    report = {
        "question": "generation, batch 1",
        "machine": {"cpu": "A CPU", "cores": 2, "torch": "2.11"},
        "command": "python -m benchmarks generation",
        "notes": {"tokens a second": {"regard": 1130.0, "transformers generate": 53.5}},
    }
    (tmp_path / "generation.json").write_text(json.dumps([report]))
    (text,) = language_page.sections({}, [tmp_path / "generation.json"])
    assert text.startswith("## Generation")
    assert "| generation, batch 1 | 1,130 | 54 |" in text


def test_all_sections_are_on_the_page(runs):
    text = page(load_runs("systems"), (), language=runs, sentences=classified())
    for head in ("## Penn Treebank", "## Tiny Shakespeare", "## TREC", "## SST-2", "- A GPU, 4 CPU cores"):
        assert head in text
    assert "benchmarks.language --data <folder> --seed 2 equal_lstm" in text
    # names that two suites share are two runs
    both = page(load_runs("systems"), (), language={"lstmn-0": a_run("lstmn", 0, test=a_report("lstmn", 0, 107.0))})
    assert "benchmarks.language --data <folder> --seed 0 lstmn\n" in both
    assert load_runs("systems")["lstmn-0"]["command"] in both


def classified(*, better=0.02):
    """Runs of every system on both sets; penalised rows overlap less, and have a higher accuracy by `better`."""
    runs_by_name = {}
    for name, training in sentences.SYSTEMS.items():
        for seed in SEEDS:
            structured, plain = "structured" in name, name.endswith("no_penalty")
            quality = ClassificationQuality(
                accuracy=0.88 - better * plain + 0.001 * seed * seed * (1 + plain),
                log_loss=0.3,
                classes=(
                    ClassQuality.of("a", num_true=4, num_predicted=4, num_correct=3),
                    ClassQuality.of("b", num_true=5, num_predicted=5, num_correct=4),
                ),
                confusion=(),
                overlap=Overlap(0.9 - 0.5 * (not plain) + 0.01 * seed, 2.0) if structured else None,
            )
            report = text_classification.make_report(info(training.model, seed), quality)
            text = json.loads(write_report(report))
            config = {"recipe": "sentences", "model_name": training.model, "model": {}}
            runs_by_name[f"{name}-{seed}"] = {
                "command": f"python -m benchmarks.sentences {name}",
                "machine": MACHINE,
                "config": config,
                "validation": text,
                "test": text,
            }
    return runs_by_name


def test_sentences_have_accuracy_overlap_and_a_verdict_on_the_penalty():
    trec, sst = sentences_page.sections(classified())
    assert "| Structured self-attention | 2.50 M | 88.2 ± 0.2 | **88.2 ± 0.2** | 77.5 ± 0.0 | 0.410 ± 0.010 |" in trec
    assert "| CNN for sentences | 2.50 M | 88.2 ± 0.2 | **88.2 ± 0.2** | 77.5 ± 0.0 |  |  | 3 |" in trec
    assert "CNN-rand 88.2 (reported)" in trec
    assert "CNN-rand 83.5 (reported, trained on phrases too" in sst
    assert "overlap clearly less; accuracy is clearly better" in trec
    assert "accuracy is clearly worse" in sentences_page.sections(classified(better=-0.02))[0]
    assert "accuracy is not clearly different" in sentences_page.sections(classified(better=0.0015))[0]
    alone = {name: run for name, run in classified().items() if name.startswith("trec_cnn")}
    assert "penalty" not in sentences_page.sections(alone)[0]


def test_data_files_have_the_paths_of_their_training(tmp_path):
    training = sentences.SYSTEMS["sst2_cnn"]
    alike = sentences.SETS["sst2"].alike
    assert training == Training("sentences", "cnn", alike, (("data", "stsa.binary.train.gz"),))
    expected = tmp_path / "sentence-classification" / "stsa.binary.train.gz"
    assert sentences.place(str(tmp_path), training) == {"data": expected}
    changes = sentences.SYSTEMS["trec_structured_no_penalty"].changes
    assert changes == (*sentences.SETS["trec"].alike, "model.penalty=0.0")


def test_seeds_are_merged_in_their_order():
    assert seeds_by_name({"b-10": 3, "a-0": 1, "b-2": 2}) == {"b": [2, 3], "a": [1]}
    assert over_seeds([1.0, 3.0], 1) == "2.0 ± 1.4"
    assert over_seeds([1.25], 2) == "1.25"
    assert over_seeds([], 2) == ""
