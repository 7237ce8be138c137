"""Does attention align words? Alignment error rates of trained translators, beside aligners of the same training text.

    python -m benchmarks.systems --data <folder> --out runs/systems bahdanau luong bahdanau_de bahdanau_invented ..
    python -m benchmarks.alignment --data <folder> --runs runs/systems

Trains no translator: it takes the folders of runs, leaves out those that do not attend and those without a gold
standard, and writes results/alignment.json, from which docs/results.md is written. Gold standards: 508 sentences of
Europarl (RWTH Aachen), for models between English and German; the test split, for models of the invented language.

The target is forced. The weights of tokens are summed over the tokens of a source word and averaged over those of a
target word, <eos> is left out, and each target word is linked to the source word with the highest weight. The weights
of the step that generates a token are used, and for comparison those of the step after it, whose input is the token.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.alignment_text import AlignedGold, gold_for, words_of
from benchmarks.harness import RESULTS, commit, machine
from regard import load
from regard._utils import write_text
from regard.checkpoint import RunFolder
from regard.contracts import AlignmentPanel
from regard.metrics import (
    AlignmentQuality,
    DiagonalAligner,
    FastAlign,
    IBMModel1,
    Link,
    alignment_quality,
    best_links,
    grow_diagonal,
    merge_words,
    swap,
)
from regard.tasks import count_parameters, entry_of, join_weights, steps_of
from regard.tasks.translation import Translator

REPORTED_WEIGHTS = "reported"
"""The name of the weights that the model itself reports as its alignment."""
Links = list[list[Link]]
Words = tuple[list[str], list[str]]

ALIGNERS: dict[str, Callable[[list[Words]], Any]] = {
    "fixed diagonal": lambda pairs: DiagonalAligner(),
    "IBM Model 1": IBMModel1.fit,
    "fast_align model": FastAlign.fit,
    "fast_align model, variational Bayes": lambda pairs: FastAlign.fit(pairs, dirichlet=0.01),
}


@dataclass(frozen=True, kw_only=True)
class ForcedWeights:
    """The weights of one attention for one sentence pair, one row per token that is generated."""

    weights: torch.Tensor
    source_words: list[int]
    target_words: list[int]

    def links(self, shift: int) -> list[Link]:
        """The best source word of each target word, from the weights `shift` steps after the token was generated."""
        rows, columns = len(self.target_words), len(self.source_words)
        # the last row and the last column are those of <eos>
        weights = self.weights[shift : shift + rows, :columns]
        return best_links(merge_words(weights, source_words=self.source_words, target_words=self.target_words))


def attended_of(translator: Translator, gold: AlignedGold, number: int) -> dict[str, ForcedWeights]:
    """The weights that the model reports for a gold pair, and the mean of the heads of each attention to the source."""
    source, target = gold.texts[number]
    inspection = translator.inspect(source.text, target.text)
    panel = inspection.panel(AlignmentPanel)
    sites = [
        site for site in inspection.sites if (site.query_axis, site.key_axis) == (panel.query_axis, panel.key_axis)
    ]
    num_keys = panel.weights.shape[1]
    weights = {REPORTED_WEIGHTS: panel.weights} | {
        site.path: join_weights(inspection.maps[site.path], num_keys).mean(dim=0).cpu() for site in sites
    }
    source_words = source.words_of(translator.tokenizers.source.spans(source.text))
    target_words = target.words_of(translator.tokenizers.target.spans(target.text))
    return {
        name: ForcedWeights(weights=rows, source_words=source_words, target_words=target_words)
        for name, rows in weights.items()
    }


def attention_rows(translator: Translator, gold: AlignedGold) -> list[dict[str, Any]]:
    """The quality of each attention, from the step that generates a token and from the step after it."""
    links: dict[str, tuple[Links, Links]] = {}
    for number in range(len(gold.texts)):
        for name, attended in attended_of(translator, gold, number).items():
            for shift, sentences in enumerate(links.setdefault(name, ([], []))):
                sentences.append(attended.links(shift))
    rows = [
        {"weights": name, **quality_of(now, gold), "error_rate_next_step": quality_of(after, gold)["error_rate"]}
        for name, (now, after) in links.items()
    ]
    # with one attention in the model the reported weights are its weights
    return rows[:1] if len(rows) == 2 and links[rows[1]["weights"]] == links[REPORTED_WEIGHTS] else rows


def quality_of(links: Sequence[Sequence[Link]], gold: AlignedGold) -> dict[str, float]:
    """Error rate, precision and recall."""
    quality: AlignmentQuality = alignment_quality(links, gold.links)
    return asdict(quality)


def aligner_rows(gold: AlignedGold, training: list[Words]) -> list[dict[str, Any]]:
    """Each aligner in both directions and combined, fitted to the training text alone and with the gold text added."""
    rows = []
    for name, fit in ALIGNERS.items():
        for with_gold in (False, True):
            # the diagonal learns nothing
            if with_gold and name == "fixed diagonal":
                continue
            text = [*training, *gold.words] if with_gold else training
            forward, backward = fit(text), fit([(target, source) for source, target in text])
            links = [forward.align(*pair) for pair in gold.words]
            reverse = [swap(backward.align(target, source)) for source, target in gold.words]
            # the condition of the published links
            both = [grow_diagonal(*sides, unlinked="both") for sides in zip(links, reverse, strict=True)]
            for direction, chosen in (("forward", links), ("reverse", reverse), ("grow-diagonal", both)):
                rows.append(
                    {"aligner": name, "gold_text": with_gold, "direction": direction, **quality_of(chosen, gold)}
                )
            print(f"  {name}{', with the gold text' * with_gold}: {rows[-3]['error_rate']:.3f}", flush=True)
    return rows


def unknown_shares(gold: AlignedGold, training: list[Words]) -> list[float]:
    """The shares of the gold's source and target words that the training text does not have."""
    shares = []
    for side in range(2):
        known = {word for pair in training for word in pair[side]}
        words = [word for pair in gold.words for word in pair[side]]
        shares.append(sum(word not in known for word in words) / len(words))
    return shares


def measure_setting(gold: AlignedGold, corpus: Any) -> dict[str, Any]:
    """The gold standard, what of it the training text has, and the aligners that learn from that text."""
    training = [words_of(corpus, pair.source, pair.target) for pair in corpus.read("train")]
    return {
        "gold": gold.name,
        "sentences": len(gold.links),
        "sure": sum(len(one.sure) for one in gold.links),
        "possible": sum(len(one.possible - one.sure) for one in gold.links),
        "training_pairs": len(training),
        "unknown_words": unknown_shares(gold, training),
        "aligners": aligner_rows(gold, training),
    }


def measure_system(translator: Translator, gold: AlignedGold, folder: Path) -> dict[str, Any]:
    """The attentions of a trained translator."""
    run = translator.run
    return {
        "model_name": run.model_name,
        "model": asdict(run.model),
        "recipe": run.recipe,
        "seed": run.training.seed,
        "parameters": count_parameters(translator.model),
        "steps": steps_of(folder),
        "attentions": attention_rows(translator, gold),
    }


def at_folder(corpus: Any, folder: str) -> Any:
    """The corpus in this data folder; that of the config is the one of the machine that trained."""
    return replace(corpus, folder=folder) if hasattr(corpus, "folder") else corpus


def main() -> None:
    """Measure all runs of a folder, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="folders in --runs; all of them by default")
    parser.add_argument("--data", required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs/systems"))
    parser.add_argument("--results", type=Path, default=RESULTS / "alignment.json")
    parser.add_argument("--sentences", type=int, default=None, help="only the first of each gold standard, for a trial")
    arguments = parser.parse_args()
    names = arguments.names or sorted(
        path.name for path in arguments.runs.iterdir() if RunFolder(path).weights.exists()
    )
    # without the local path of the data
    line = "python -m benchmarks.alignment --data <folder> --runs <runs>"
    recorded = {"machine": machine(), "commit": commit(), "command": " ".join([line, *arguments.names])}
    settings: dict[str, Any] = {}
    systems: dict[str, Any] = {}
    for name in names:
        folder = arguments.runs / name
        translator = load(folder)
        corpus = at_folder(translator.run.data, arguments.data)
        gold = gold_for(corpus, translator.tokenizers, Path(arguments.data), arguments.sentences)
        if gold is None or not entry_of(translator.run).attends:
            print(f"{name}: no gold standard, or no attention", flush=True)
            continue
        print(f"{name}: {gold.setting}", flush=True)
        if gold.setting not in settings:
            settings[gold.setting] = measure_setting(gold, corpus)
        systems[name] = {"setting": gold.setting, **measure_system(translator, gold, folder)}
        print(f"  attention: {systems[name]['attentions'][0]['error_rate']:.3f}", flush=True)
        # after each system, so that an interruption leaves those before it
        content = {**recorded, "settings": settings, "systems": systems}
        write_text(arguments.results, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
