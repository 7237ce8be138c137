"""Section of docs/results.md on word alignment, from results/alignment.json.

All figures come from this file, except those that other projects published.
"""

from collections.abc import Sequence
from typing import Any

from benchmarks.markdown import hardware, table
from regard.models.translation import TRANSLATION_MODELS

LUONG, DYER = "https://arxiv.org/abs/1508.04025", "https://aclanthology.org/N13-1073"
STORED = "https://github.com/lilt/alignment-scripts"
REPORTED = (
    ("Luong, global, location", "0.39 (reported)", LUONG),
    ("Luong, local-m, general", "0.34 (reported)", LUONG),
    ("Luong, local-p, general", "0.36 (reported)", LUONG),
    ("Berkeley aligner", "0.32 (reported)", LUONG),
    ("fast_align, de-en, forward / reverse / grow-diagonal", "0.285 / 0.320 / 0.270 (published links)", STORED),
    ("MGIZA, de-en, forward / reverse / grow-diagonal-final", "0.210 / 0.231 / 0.206 (published links)", STORED),
)
"""System, alignment error rate on the same 508 sentences, the source."""

REPORTED_WEIGHTS = "reported"
SETTINGS = {
    "multi30k": (
        "Out of domain: the models and the aligners learn from image captions, the gold standard is from parliament. "
        "Aligners cannot link unknown words from what they learned; the models see their parts."
    ),
    "tatoeba": "Models and aligners learn from the same everyday sentences; the gold standard is parliamentary.",
    "invented": "Training text and gold standard are of one language: here the comparison is fair to all.",
}
"""What the figures of a setting mean, by the start of its name."""

Record = dict[str, Any]


def sections(record: Record) -> list[str]:
    """The section, if anything is recorded."""
    if not record.get("systems"):
        return []
    texts = [setting_text(name, record) for name in sorted(record["settings"], key=position)]
    return [
        "## Word alignment\n"
        "Alignment error rate (AER) of attention under a forced target: each target word is linked to the source word "
        "with the highest weight, summed over its tokens and averaged over those of the target word; `<eos>` is left "
        "out. Lower is better. `next step`: the AER with the weights of the step after, whose input is the word. "
        f"`{record['command']}`, {hardware(record['machine'])}.\n\n" + "\n".join(texts) + published(record)
    ]


def position(setting: str) -> int:
    """Settings in the order of the notes."""
    return next((number for number, start in enumerate(SETTINGS) if setting.startswith(start)), len(SETTINGS))


def setting_text(name: str, record: Record) -> str:
    """Systems and aligners of one training text."""
    setting = record["settings"][name]
    own = {key: system for key, system in record["systems"].items() if system["setting"] == name}
    unknown = " and ".join(
        f"{100 * share:.0f} % of the {side} words"
        for share, side in zip(setting["unknown_words"], ("source", "target"), strict=True)
    )
    about = next((text for start, text in SETTINGS.items() if name.startswith(start)), "")
    return (
        f"### Alignment: {name}\n"
        f"Gold standard: {setting['gold']}, {setting['sentences']:,} sentence pairs, {setting['sure']:,} sure and "
        f"{setting['possible']:,} possible links. {setting['training_pairs']:,} training pairs, in which {unknown} of "
        f"the gold standard do not occur. {about}\n\n{systems_table(own)}\n{aligners_table(setting['aligners'])}\n"
        f"{verdict(own, setting['aligners'])}"
    )


def systems_table(systems: Record) -> str:
    """The reported weights of each system, and its best single attention."""
    rows = []
    for key, system in systems.items():
        for one in system["attentions"]:
            rows.append(
                (
                    f"{title(system)}, {layer_of(one['weights'])}",
                    f"**{one['error_rate']:.3f}**"
                    if one["weights"] == REPORTED_WEIGHTS
                    else f"{one['error_rate']:.3f}",
                    f"{one['precision']:.3f}",
                    f"{one['recall']:.3f}",
                    f"{one['error_rate_next_step']:.3f}",
                    f"{system['parameters'] / 1e6:.1f} M",
                    key.rpartition("-")[2],
                )
            )
    return table(("attention", "AER", "precision", "recall", "next step", "parameters", "seed"), rows)


def aligners_table(aligners: Sequence[Record]) -> str:
    """The AER of each aligner by direction, without and with the gold text in the training text."""
    directions = ("forward", "reverse", "grow-diagonal")
    rates = {(row["aligner"], row["gold_text"], row["direction"]): row["error_rate"] for row in aligners}
    names = list(dict.fromkeys((row["aligner"], row["gold_text"]) for row in aligners))
    rows = [
        (f"{name}{', gold text added' * added}", *(f"{rates[name, added, one]:.3f}" for one in directions))
        for name, added in names
    ]
    return table(("aligner", *(f"AER, {one}" for one in directions)), rows)


def verdict(systems: Record, aligners: Sequence[Record]) -> str:
    """Attention beside the diagonal and the aligners that learned from the same text only, in the same direction."""
    attention = min(reported_rate(system) for system in systems.values())
    best = min(systems.values(), key=reported_rate)
    alone = {
        row["aligner"]: row["error_rate"] for row in aligners if row["direction"] == "forward" and not row["gold_text"]
    }
    better = [name for name, rate in alone.items() if attention < rate]
    worse = [name for name, rate in alone.items() if attention >= rate]
    parts = [
        *([f"better than {', '.join(better)}"] if better else []),
        *([f"not better than {', '.join(worse)}"] if worse else []),
    ]
    return (
        f"The best attention, {title(best)} (AER {attention:.3f}), is {' and '.join(parts)} (forward, the same "
        f"training text). One run per system.\n"
    )


def reported_rate(system: Record) -> float:
    """The AER of the weights that the system reports."""
    return float(next(one["error_rate"] for one in system["attentions"] if one["weights"] == REPORTED_WEIGHTS))


def title(system: Record) -> str:
    """The title of a system, with the settings of a variant."""
    model, name = system["model"], TRANSLATION_MODELS[system["model_name"]].title
    if system["model_name"] == "luong":
        return f"{name}, {model['score']}, {model['alignment'].replace('_', ' ')}"
    return f"{name}, {model['fusion']} fusion" if system["model_name"] == "lstmn" else name


def layer_of(weights: str) -> str:
    """The name of a row: a module path is that of one attention, the mean over its heads."""
    return "reported alignment" if weights == REPORTED_WEIGHTS else f"`{weights}`"


def published(record: Record) -> str:
    """Published figures for the same sentences."""
    if not any("Europarl" in setting["gold"] for setting in record["settings"].values()):
        return ""
    rows = [(system, rate, f"<{paper}>") for system, rate, paper in REPORTED]
    return (
        "\n### Published error rates\nOn the same 508 sentences, with other training data: Luong's models on 4.5 "
        "million pairs of WMT 2014, the aligners on 1.9 million pairs of Europarl. The rates of the published links "
        f"were computed with our scorer. fast_align's model: <{DYER}>.\n\n"
        + table(("system", "AER", "source"), rows, left=3)
    )
