"""Tables of n-grams: the counts are those of the text, and the verdict follows growth and perplexity."""

import pytest
import torch

from regard.data.corpora import TopicsCorpus
from regard.experiments.lib.language import word_streams
from regard.experiments.lib.sizes import num_parameters
from regard.experiments.ngram_tables import (
    NETWORKS,
    SHARES,
    Predicted,
    TableRun,
    build_network,
    count_ngrams,
    judge,
    numbers_in,
    train_network,
)
from regard.tasks import count_parameters


def runs_of(entries=(100, 400, 1600), tables=(100.0, 80.0, 70.0), networks=(60.0, 65.0, 90.0), noise=(0.0, 1.0, -1.0)):
    """Runs of three seeds; the validation perplexity is that of the test."""
    return [
        TableRun(
            entries={name: [round(share * (value + one)) for value in entries] for name, share in SHARES.items()},
            ngrams=[Predicted(numbers=1000, perplexity=value + one, validation=value) for value in tables],
            networks={
                name: Predicted(numbers=1000, perplexity=value + one, validation=value)
                for name, value in zip(NETWORKS, networks, strict=True)
            },
        )
        for one in noise
    ]


def test_growing_tables_and_a_better_network_hold():
    holds, verdict = judge(runs_of(), 3)
    assert holds is True, verdict
    assert "almost exponential growth" in verdict.en
    assert "The best network by validation, MLP, is clearly better." in verdict.en
    assert verdict.zh.endswith("最好的网络是 MLP，与同样大小的 n-gram 表相比明显更好。")


def test_tables_that_the_text_bounds_refute_it():
    holds, verdict = judge(runs_of(entries=(100, 400, 420)), 3)
    assert holds is False
    assert "no exponential growth" in verdict.en


def test_networks_that_are_worse_refute_it():
    holds, verdict = judge(runs_of(networks=(85.0, 95.0, 90.0)), 3)
    assert holds is False
    assert "MLP, is clearly worse" in verdict.en


def test_the_network_is_chosen_by_validation():
    runs = runs_of()
    for run in runs:
        run.networks["gpt"] = Predicted(numbers=1000, perplexity=200.0, validation=1.0)
    holds, verdict = judge(runs, 3)
    assert holds is False
    assert "GPT, is clearly worse" in verdict.en


def test_a_difference_within_the_spread_does_not_decide():
    runs = runs_of(networks=(70.0, 99.0, 99.0))
    assert judge(runs, 3)[0] is None


def test_the_entries_are_the_different_ngrams_of_the_text():
    text = "a b a b\na c\n"
    stream, _, vocab_size = word_streams(text, [], vocab_size=20)
    model = count_ngrams(torch.from_numpy(stream.ids).long(), 2, vocab_size)
    # <bos> a, a b, b a, b <eos>, a c, c <eos>
    assert model.config.entries[1] == 6
    assert numbers_in(model) == sum(buffer.numel() for buffer in model.buffers()) > 12


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_the_size_asked_for_and_learns(name):
    corpus = TopicsCorpus()
    text = corpus.read("train")
    training, (test,), vocab_size = word_streams(text[:20_000], [text[:2000]], vocab_size=60)
    before, after = (
        train_network(0, name, 5000, training, [test, test], vocab_size=vocab_size, epochs=epochs) for epochs in (0, 12)
    )
    assert after.numbers == pytest.approx(5000, rel=0.05)
    assert after.perplexity == after.validation < 0.97 * before.perplexity
    assert num_parameters(build_network, name, vocab_size, 8) == count_parameters(build_network(name, vocab_size, 8))
