"""Attention span: the verdict follows the numbers, and recorded runs give the same one."""

import json
import math

import pytest
import torch

from regard.contracts.report import RunInfo
from regard.data.corpora.text import TopicsCorpus
from regard.experiments import attention_span
from regard.experiments.attention_span import (
    ATTENDING,
    SYSTEMS,
    WINDOW,
    SpanResult,
    SpanTraining,
    common_seeds,
    finding_of,
    judge,
)
from regard.experiments.lib.finding import Measured
from regard.experiments.lib.small_transformer import seeded
from regard.metrics import SPANS, Likelihood, SpanMass
from regard.tasks import count_parameters, write_report
from regard.tasks.language_modeling.evaluate import likelihood, make_report

PAPER = {"lstm": 85.2, "attention": 82.0, "key_value": 78.2, "key_value_predict": 75.8, "ngram_rnn": 75.9}
NEAR = (0.4, 0.6, 0.8, 0.95, 1.0)
EVEN = tuple(span / WINDOW for span in SPANS)
TINY = {"epochs": 1, "hidden_size": 8, "vocab_size": 100, "characters": 6000}


def results_of(perplexities=PAPER, within=NEAR, noise=(0.0, 0.3, -0.2)):
    """Results of three seeds; those of the 4-gram RNN vary in the opposite direction."""
    return {
        name: [
            SpanResult(
                parameters=1000,
                perplexity=perplexities[name] + (-difference if name == "ngram_rnn" else difference),
                within=within if name in ATTENDING else (),
            )
            for difference in noise
        ]
        for name in SYSTEMS
    }


def as_runs(results):
    """The same results as benchmarks record them."""
    runs = {}
    for name, by_seed in results.items():
        for seed, result in enumerate(by_seed):
            mass = SpanMass(within=result.within, distance=2.0, count=100)
            report = make_report(
                RunInfo(
                    task="language_modeling",
                    system=name,
                    data="ptb",
                    split="test",
                    examples=1,
                    parameters=1000,
                    steps=1,
                    seed=seed,
                ),
                Likelihood(nats=math.log(result.perplexity), tokens=1, words=1, characters=1),
                reading="one stream, the state carried",
                distances={"attention": mass} if result.within else {},
            )
            runs[f"equal_{name}-{seed}"] = {"test": json.loads(write_report(report))}
    return runs


def test_the_papers_own_figures_hold():
    holds, verdict = judge(results_of())
    assert holds, verdict
    assert (
        "Attention 80%, Key-Value 80%, Key-Value-Predict 80% (uniform weights, 33%): attention mainly uses"
        in verdict.en
    )
    assert "Each form of attention is clearly better" in verdict.en
    assert "4-gram RNN is on par with Key-Value-Predict" in verdict.en


def test_uniform_weights_have_no_short_span():
    holds, verdict = judge(results_of(within=EVEN))
    assert not holds
    assert "attention does not mainly use them" in verdict.en


@pytest.mark.parametrize(("perplexity", "comparison"), [(83.0, "clearly worse than"), (82.0, "on par with")])
def test_the_verdict_names_where_the_order_breaks(perplexity, comparison):
    holds, verdict = judge(results_of(PAPER | {"key_value": perplexity}))
    assert not holds
    assert f"Key-Value is {comparison} Attention." in verdict.en


@pytest.mark.parametrize(("perplexity", "comparison", "expected"), [(90.0, "worse", False), (60.0, "better", True)])
def test_the_verdict_covers_both_orders_of_a_simple_model(perplexity, comparison, expected):
    holds, verdict = judge(results_of(PAPER | {"ngram_rnn": perplexity}))
    assert holds is expected
    assert f"The 4-gram RNN is clearly {comparison} than Key-Value-Predict" in verdict.en


def test_recorded_runs_give_the_same_finding():
    results = results_of()
    finding = finding_of(as_runs(results) | {"ngram-0": {"test": {}}, "equal_lstm-7": {"validation": {}}})
    assert (finding.holds, finding.verdict) == judge(results)
    assert [row["system"] for row in finding.rows][-2:] == ["4-gram RNN", "uniform weights"]
    expected = Measured.of(result.perplexity for result in results["lstm"])
    assert finding.rows[0]["perplexity"].mean == pytest.approx(expected.mean)
    assert finding.rows[0]["last 5"] == ""
    assert finding.rows[1]["last 5"].mean == pytest.approx(0.8)
    assert finding.rows[-1]["last 5"] == pytest.approx(1 / 3)


def test_seeds_missing_for_a_system_do_not_count():
    runs = as_runs(results_of())
    del runs["equal_key_value-1"]
    assert common_seeds(runs) == ["0", "2"]
    del runs["equal_lstm-0"]
    with pytest.raises(ValueError, match=r"1 seeds have a run of each of equal_lstm, .* Record 2 or more"):
        finding_of(runs)


def test_all_have_one_size_and_start_from_the_word_frequencies():
    training = SpanTraining.of(TopicsCorpus(), vocab_size=300, hidden_size=24, epochs=1, characters=20_000)
    models = {name: training.build(name, training.equal_size(name)) for name in SYSTEMS}
    sizes = [count_parameters(model) for model in models.values()]
    assert max(sizes) < 1.05 * min(sizes)
    ids = torch.from_numpy(training.training.ids).long()
    for model in models.values():
        training.set_frequencies(model)
        probabilities = model.readout.bias.softmax(dim=-1)
        assert probabilities[ids[0]].item() == pytest.approx((ids == ids[0]).double().mean().item(), rel=0.05)


def test_a_tiny_run_measures_every_system():
    finding = attention_span.run(seeds=2, **TINY)
    rows = {row["system"]: row for row in finding.rows}
    assert len(rows) == len(SYSTEMS) + 1
    for name in ("Attention", "Key-Value", "Key-Value-Predict"):
        assert rows[name]["last 15"].mean == pytest.approx(1.0, abs=1e-4)
        assert rows[name]["last 1"].mean < rows[name]["last 5"].mean
    assert rows["LSTM"]["last 15"] == ""
    assert all(row["perplexity"].mean < 100 for row in finding.rows[:-1])


def test_training_improves_on_word_frequencies():
    training = SpanTraining.of(TopicsCorpus(), vocab_size=300, hidden_size=16, epochs=8, characters=60_000)
    with seeded(0):
        model = training.build("ngram_rnn", 16)
        training.set_frequencies(model)
        before = likelihood(model, training.training).perplexity
        training.fit(model)
    assert likelihood(model, training.training).perplexity < 0.9 * before
