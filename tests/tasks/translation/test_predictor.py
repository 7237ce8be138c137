"""A loaded model translates text in batches of any size; a broken folder raises a clear error."""

import json
import math
import shutil

import pytest
import torch

import regard
from regard.decoding import Sampling
from regard.tasks import load, read_report, steps_of, write_report
from regard.tasks.translation.run import LONGEST_SOURCE


@pytest.fixture
def translator(fitted):
    return fitted.system


def test_every_text_is_translated_and_an_empty_one_stays_empty(translator):
    texts = ["a b c", "", "d", "   ", "a a a b d"]
    actual = translator.translate(texts)
    assert [bool(one.tokens) for one in actual] == [True, False, True, False, True]
    assert str(actual[1]) == actual[1].text == ""
    assert [one.text for one in actual] == [translator.translate([text])[0].text for text in texts]


def test_attention_and_links_match_the_tokens(translator):
    one = translator.translate(["a b c"], beam=2, return_weights=True)[0]
    assert one.source_tokens == ("a", "▁", "b", "▁", "c", "<eos>")
    assert one.weights.shape == (len(one.tokens), len(one.source_tokens))
    torch.testing.assert_close(one.weights.sum(1), torch.ones(len(one.tokens)))
    assert all(0 <= source < 5 and 0 <= target < len(one.tokens) for source, target in one.links)
    assert translator.translate(["a b c"])[0].weights is None


def test_alternatives_come_best_first(translator):
    one = translator.translate(["a b"], beam=4, num_best=3)[0]
    scores = [one.score, *(other.score for other in one.alternatives)]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    with pytest.raises(ValueError, match="num_best is 9"):
        translator.translate(["a b"], beam=4, num_best=9)


def test_a_score_is_the_log_probability_of_the_search(translator):
    one = translator.translate(["a b c"], beam=1)[0]
    if one.tokens[-1] == "<eos>":
        assert translator.score(["a b c"], [one.text])[0] == pytest.approx(one.log_prob, abs=1e-4)
    assert translator.score(["a", "b c"], ["a", "b c"])[0] == pytest.approx(translator.score(["a"], ["a"])[0], abs=1e-4)
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        translator.score(["a", "b"], ["a"])


def test_a_search_may_be_passed_instead_of_a_beam(translator):
    draws = [translator.translate(["a b c d"] * 3, search=Sampling(seed=seed)) for seed in (0, 0, 1)]
    assert [one.text for one in draws[0]] == [one.text for one in draws[1]]
    assert [one.text for one in draws[0]] != [one.text for one in draws[2]]


def test_a_single_string_is_refused(translator):
    with pytest.raises(ValueError, match=r"texts is one string, expected a list of them. Write \[texts\]"):
        translator.translate("a b c")


def test_a_source_of_ten_thousand_words_is_truncated_with_a_warning(translator):
    with pytest.warns(UserWarning, match="text 2 has 19,999 tokens; only the first 999 were translated"):
        actual = translator.translate(["a", " ".join(["a"] * 10_000)], beam=1)
    assert actual[1].num_dropped == 19_999 - LONGEST_SOURCE + 1
    with pytest.raises(ValueError, match="pair 1 has 19,999 tokens on a side"):
        translator.score([" ".join(["a"] * 10_000)], ["a"])


def test_unknown_letters_are_translated(translator):
    assert translator.translate(["é 中 \u0000 <eos>"])[0].tokens


def test_a_translator_can_be_traced(translator):
    with regard.trace(translator.model) as maps:
        translator.translate(["a b c"], beam=1)
    assert maps


def test_a_saved_and_loaded_translator_gives_equal_outputs(fitted):
    texts = ["a b c", "d c"]
    loaded = load(fitted.result.folder, device="cpu")
    assert loaded.run == fitted.system.run
    ours, theirs = fitted.system.score(texts, texts), loaded.score(texts, texts)
    assert ours == pytest.approx(theirs)
    assert not loaded.model.training
    with pytest.raises(ValueError, match="device is 'tpu', expected auto, cpu, cuda, mps"):
        load(fitted.result.folder, device="tpu")


def test_loading_draws_no_random_numbers(fitted):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    load(fitted.result.folder)
    assert torch.equal(before, torch.get_rng_state())


@pytest.fixture
def copied(fitted, tmp_path):
    return shutil.copytree(fitted.result.folder, tmp_path / "copy")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer.target.json"])
def test_a_missing_file_is_named(copied, name):
    (copied / name).unlink()
    with pytest.raises(FileNotFoundError, match=name.replace(".", r"\.")):
        load(copied)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_truncated_file_is_named(copied, name):
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        load(copied)


def test_foreign_files_are_named(copied, tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no config\.json, so `regard train` did not write it"):
        load(tmp_path / "empty")
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({"model_type": "marian"}))
    with pytest.raises(ValueError, match="was not written by regard"):
        load(copied)
    config["model"]["hidden_size"] = 16
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="does not fit the model"):
        load(copied)
    config["model"]["hiden_size"] = config["model"].pop("hidden_size")
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="has no 'hiden_size'; the nearest is 'hidden_size'"):
        load(copied)


def test_an_evaluation_has_all_metrics_and_tables(fitted):
    pairs = fitted.system.run.data.read("test")
    report = fitted.system.evaluate(pairs, split="test", beam=2, steps=steps_of(fitted.result.folder))
    info = report.info
    assert (info.task, info.system, info.data) == ("translation", "bahdanau", "copy")
    assert (info.split, info.examples, info.search) == ("test", 8, "beam 2")
    assert info.steps == fitted.result.chosen_step
    assert report.metrics[0].name == "exact_match", "copies have one correct output"
    assert 0 <= report.metrics[0].value <= 1
    assert report.metric("bleu_tokenised") is not None and report.metric("bleu") is None
    log_probs = fitted.system.score([pair.source for pair in pairs], [pair.target for pair in pairs])
    perplexity = report.metric("perplexity")
    num_tokens = int(perplexity.signature.split()[0])
    assert perplexity.value == pytest.approx(math.exp(-sum(log_probs) / num_tokens), rel=1e-4)
    assert sum(row[1] for row in report.table("by_length").rows) == 8
    assert read_report(write_report(report)) == report and not report.warnings


@pytest.mark.cuda
def test_cuda_gives_the_outputs_of_the_cpu(fitted):
    texts = ["a b c", "d c b a"]
    ours, theirs = (load(fitted.result.folder, device=device).score(texts, texts) for device in ("cpu", "cuda"))
    assert ours == pytest.approx(theirs, abs=1e-3)
