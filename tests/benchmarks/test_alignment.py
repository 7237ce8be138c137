"""The alignment benchmark: gold words in the form of a training text, weights of words, and the section of the page."""

import copy
import os
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import alignment_page
from benchmarks.alignment import REPORTED_WEIGHTS, attended_of, measure_setting, measure_system
from benchmarks.alignment_text import WORD, Sentence, escaped, europarl_gold, gold_for, words_of
from benchmarks.results_page import load_runs, page
from benchmarks.systems import SYSTEMS, place
from regard._utils import override
from regard.contracts import BOS, EOS, PaddedTokens
from regard.data.corpora import Multi30kCorpus, TatoebaCorpus
from regard.data.text import Tokenizer, TokenizerSettings
from regard.decoding import forced_alignment
from regard.metrics import best_links
from regard.recipes import make_run
from regard.tasks import fit

WORDS = ["Mr", "Smith", "'s", "well-known", "(", "short", ")", "list", ",", "too", "."]
QUIET = Console(quiet=True)
MACHINE = {"date": "2026-01-01", "gpu": "A GPU", "cores": 4, "python": "3.12", "torch": "2.11"}


@pytest.fixture(scope="module", params=["bahdanau", "transformer"])
def trained(request, tmp_path_factory):
    """A translator of the invented language after two steps, and its folder."""
    run = make_run("invented", request.param, steps=2)
    small = {"bahdanau": ["hidden_size=8", "alignment_size=8"], "transformer": ["hidden_size=16"]}[request.param]
    for change in (*(f"model.{setting}" for setting in small), "data.count=60", "data.held_out=12"):
        run = override(run, change)
    folder = tmp_path_factory.mktemp("runs") / request.param
    return fit(run, folder, console=QUIET).system, folder


def test_plain_text_has_no_space_before_punctuation():
    sentence = Sentence.of(WORDS, is_plain=True)
    assert sentence.text == "Mr Smith's well-known (short) list, too."
    assert [sentence.text[start:end] for start, end in sentence.spans] == WORDS
    assert Sentence.of(WORDS, is_plain=False).text == " ".join(WORDS)
    # an aligner finds the same words in plain text
    assert WORD.findall(sentence.text) == WORDS


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
def test_every_token_belongs_to_its_word(kind, is_plain):
    sentence = Sentence.of(WORDS, is_plain=is_plain)
    # few merges, so that words have several tokens; unknown letters too
    tokenizer = Tokenizer.train(["short list of words", "Smith is too well known"], TokenizerSettings(kind=kind))
    spans = tokenizer.spans(sentence.text)
    numbers = sentence.words_of(spans)
    assert len(numbers) == len(tokenizer.encode(sentence.text))
    if kind == "words" and is_plain:
        # words between spaces are longer than those of the gold standard: the last one counts
        assert [WORDS[number] for number in numbers] == ["Mr", "'s", "well-known", ")", ",", "."]
        return
    assert sorted(set(numbers)) == list(range(len(WORDS)))
    for number, (start, end) in zip(numbers, spans, strict=True):
        assert sentence.text[start:end].strip() in WORDS[number]


def test_forms_of_the_training_texts():
    tokenised, plain = Multi30kCorpus(pair="en-de"), TatoebaCorpus(pair="en-de")
    assert words_of(tokenised, "a kid &apos;s toy .", "ein spielzeug .")[0] == ["a", "kid", "&apos;s", "toy", "."]
    assert words_of(plain, "It’s Tom's toy.", "Ist's Toms?") == (
        ["it", "'s", "tom", "'s", "toy", "."],
        ["ist", "'s", "toms", "?"],
    )
    assert escaped(["Kid", "'s", '"']) == ["kid", "&apos;s", "&quot;"]


def test_the_gold_standard_follows_the_direction():
    data = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data")) / "word-alignment"
    if not data.is_dir():
        pytest.skip(f"needs the gold alignments, and {data} is not there; name the data folder in REGARD_DATA")
    german, english = (europarl_gold(TatoebaCorpus(pair=pair), data, 20) for pair in ("de-en", "en-de"))
    assert german.setting == "tatoeba de-en plain"
    for first, second in zip(german.links, english.links, strict=True):
        assert {(j, i) for i, j in first.sure} == second.sure
        assert {(j, i) for i, j in first.possible} == second.possible
    for (source, target), links in zip(english.words, english.links, strict=True):
        assert all(i < len(source) and j < len(target) for i, j in links.possible)
    assert english.words[1] == (["but", "this", "is", "not", "what", "happens", "."], ["das", "stimmt", "nicht", "!"])
    assert english.texts[1][1].text == "Das stimmt nicht!"


def test_other_corpora_have_no_gold_standard(trained, tmp_path):
    for corpus in (TatoebaCorpus(pair="en-zh"), make_run("dates").data):
        assert gold_for(corpus, trained[0].tokenizers, tmp_path, None) is None


def test_links_are_those_of_the_forced_alignment(trained):
    translator, folder = trained
    gold = gold_for(translator.run.data, translator.tokenizers, folder, 5)
    for number, (source, target) in enumerate(gold.texts):
        ids = [
            tokenizer.encode(side.text)
            for tokenizer, side in zip(
                (translator.tokenizers.source, translator.tokenizers.target), (source, target), strict=True
            )
        ]
        weights = forced_alignment(
            translator.model, PaddedTokens.from_lists([[*ids[0], EOS]]), PaddedTokens.from_lists([[BOS, *ids[1]]])
        )[0]
        attended = attended_of(translator, gold, number)[REPORTED_WEIGHTS]
        assert attended.links(0) == best_links(weights[:-1, :-1])
        assert attended.links(1) == best_links(weights[1:, :-1])


def test_a_system_and_its_setting_are_measured(trained):
    translator, folder = trained
    gold = gold_for(translator.run.data, translator.tokenizers, folder, None)
    system, setting = measure_system(translator, gold, folder), measure_setting(gold, translator.run.data)
    names = [row["weights"] for row in system["attentions"]]
    # one attention has one row; of several each has one
    expected = 1 if system["model_name"] == "bahdanau" else 1 + system["model"]["num_layers"]
    assert len(names) == len(set(names)) == expected and names[0] == REPORTED_WEIGHTS
    assert setting["sentences"] == 12 and setting["training_pairs"] == 60
    rates = {(row["aligner"], row["gold_text"]): row["error_rate"] for row in setting["aligners"]}
    assert rates["IBM Model 1", False] < rates["fixed diagonal", False]
    record = {
        "machine": MACHINE,
        "command": "python -m benchmarks.alignment",
        "settings": {gold.setting: setting},
        "systems": {"system-0": {"setting": gold.setting, **system}},
    }
    (text,) = alignment_page.sections(record)
    assert "### Alignment: invented language" in text and "Published error rates" not in text
    assert "0 below IBM Model 1" in text
    better = copy.deepcopy(record)
    better["systems"]["system-0"]["attentions"][0]["error_rate"] = 0.0
    assert "1 below IBM Model 1" in alignment_page.sections(better)[0]
    better["settings"][gold.setting]["gold"] = "508 sentences of Europarl"
    assert "Luong, local-m, general" in alignment_page.sections(better)[0]
    assert text in page(load_runs("systems"), (), alignment=record)


def test_without_records_there_is_no_section():
    assert alignment_page.sections({}) == []
    assert "## Word alignment" not in page(load_runs("systems"), ())


def test_the_systems_for_the_benchmark_can_be_built():
    for name in ("bahdanau_de", "transformer_invented"):
        training = SYSTEMS[name]
        run = make_run(training.recipe, training.model, **place("data", training))
        assert run.data.languages == (("en", "de") if name.endswith("_de") else ("", ""))
