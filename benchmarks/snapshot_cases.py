"""The cases of a snapshot: one small training for each system and its main variants, and the data that they need.

Names of regard that may change are in the first tables only, so that a later version needs an edit there and nowhere
else.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# commands, their options, and the keys of --set: the name used in this file -> the name in this version of regard
COMMANDS = {name: name for name in ("train", "translate", "score", "generate", "classify", "evaluate")}
OPTIONS = {
    **{name: f"--{name}" for name in ("model", "set", "out", "seed", "steps", "device", "data", "source")},
    **{name: f"--{name}" for name in ("split", "beam", "sample", "alignments", "prompt", "temperature", "json")},
    "num_best": "--num-best",
    "max_tokens": "--max-tokens",
}
SETTINGS = {
    **{name: f"model.{name}" for name in ("embedding_size", "hidden_size", "alignment_size", "maxout_size")},
    **{name: f"model.{name}" for name in ("num_layers", "num_heads", "feed_forward_size", "context", "max_length")},
    **{name: f"model.{name}" for name in ("window", "span", "order", "mini_batch", "max_width", "num_maps")},
    **{name: f"model.{name}" for name in ("attention_size", "num_rows", "classifier_size", "dropout")},
    **{name: f"model.{name}" for name in ("score", "alignment", "input_feeding", "fusion", "norm", "positions")},
    **{name: f"model.{name}" for name in ("shared_embeddings", "direct", "tied", "inner")},
    "vocab_size": "tokenizer.vocab_size",
    "tokenizer": "tokenizer.kind",
    "joint": "tokenizer.joint",
    "batch_tokens": "batch.tokens",
    "batch_rows": "batch.rows",
    "batch_length": "batch.length",
    "count": "data.count",
    "held_out": "data.held_out",
    "log": "training.every.log",
    "validate": "training.every.validate",
    "save": "training.every.save",
    "learning_rate": "training.optimizer.learning_rate",
    "weight_decay": "training.optimizer.weight_decay",
    "warmup_steps": "training.schedule.warmup_steps",
    "validated_sentences": "validation.sentences",
}
RECIPES = {
    **{name: name for name in ("multi30k", "tatoeba", "pairs", "dates", "reverse", "copy")},
    **{name: name for name in ("ptb", "tinyshakespeare", "tinyshakespeare_small", "text", "sentences")},
}
FILES = {"weights": "model.safetensors", "metrics": "metrics.jsonl", "evaluation": "evaluation-validation*.json"}
# the name in a snapshot -> the key in what regard writes: metrics.jsonl, answers as JSON, evaluations by family
METRICS = {"loss": "loss", "validation": "validation"}
ANSWERS = {name: name for name in ("text", "log_probs", "label", "probabilities")}
EVALUATION = {
    "translation": {
        "chrf": "metrics.chrf.value",
        "exact_match": "metrics.exact_match.value",
        "nats": "tables.counts.rows.0.1",
    },
    "language": {
        "nats": "tables.counts.rows.0.4",
        "tokens": "tables.counts.rows.0.0",
        "distance": "tables.attention_distance.rows.0.-2",
    },
    "sentences": {
        "accuracy": "metrics.accuracy.value",
        "macro_f1": "metrics.macro_f1.value",
        "log_loss": "metrics.log_loss.value",
    },
}


def log_probs(predictor: Any, case: "Case") -> dict[str, list[float]]:
    """Numbers that the command line rounds or does not print: log-probabilities by the Python API."""
    if case.family == "translation":
        greedy, best = (predictor.translate(case.inputs, beam=beam) for beam in (1, 3))
        return {
            "greedy": [translation.log_prob for translation in greedy],
            "beam": [translation.log_prob for translation in best],
            "targets": predictor.score(case.inputs, case.outputs),
        }
    return {"texts": [-predictor.likelihood(text).nats for text in case.outputs]}


ARTICLES, ADJECTIVES, VERBS = ("the", "a"), ("big", "small", "red", "old"), ("sat", "ran", "slept", "sang")
ANIMALS, PLACES = ("cat", "dog", "bird"), ("on the mat", "under a hat", "by the door 1 , 2", "in the garden", "to town")
DATES = ("Tuesday, March 5, 2024", "July 20, 1969", "1 May 2001 - 3 June 2002", "Jan 2, 1999")
DATE_ANSWERS = ("2024年3月5日星期二", "1969年7月20日", "2001年5月1日至2002年6月3日", "1999年2月1日")
LETTERS = ("a b c d e f", "z y x", "q", "h e l l o w o r l d")
LETTER_ANSWERS = ("f e d c b a", "x y z", "q", "d l r o w o l l e h")
SENTENCES = ("the big cat sat on the mat .", "a red dog ran to town", "bird", "by the old door 2 , 1 small hat")
PROMPTS = ("the cat", "a big", "the old bird sang in the garden .\na red dog ran under")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training: a model, a recipe with its data, settings by their names in SETTINGS, and the examples to answer.

    Translations and texts of `outputs` are scored.
    """

    family: str
    model: str
    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    attends: bool = False


RECURRENT = {"embedding_size": 12, "hidden_size": 16}
TRANSFORMER = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "feed_forward_size": 32}
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "translation": {
        "rctm": {"embedding_size": 16, "hidden_size": 16},
        "rnn_encoder_decoder": {**RECURRENT, "maxout_size": 12},
        "seq2seq": {**RECURRENT, "num_layers": 2},
        "bahdanau": {**RECURRENT, "alignment_size": 12, "maxout_size": 12},
        "luong": {**RECURRENT, "num_layers": 2},
        "lstmn": RECURRENT,
        "conv_seq2seq": {**RECURRENT, "num_layers": 3, "max_length": 96},
        "transformer": TRANSFORMER,
    },
    "language": {
        "ngram": {"order": 3},
        "mlp": {**RECURRENT, "order": 4},
        "lstm": {**RECURRENT, "num_layers": 2},
        "lstmn": {**RECURRENT, "span": 6},
        "attention": {**RECURRENT, "window": 5},
        "key_value": {**RECURRENT, "window": 5},
        "key_value_predict": {"embedding_size": 12, "hidden_size": 12, "window": 5},
        "ngram_rnn": {"embedding_size": 12, "hidden_size": 18},
        "gpt": {**TRANSFORMER, "context": 24},
        "ttt": {**TRANSFORMER, "mini_batch": 8},
    },
    "sentences": {
        "cnn": {"embedding_size": 12, "num_maps": 6},
        "bilstm": RECURRENT,
        "lstmn_encoder": RECURRENT,
        "structured_self_attention": {**RECURRENT, "attention_size": 10, "num_rows": 3, "classifier_size": 12},
        "transformer_encoder": TRANSFORMER,
    },
}
ATTENDING = ("bahdanau", "luong", "lstmn", "conv_seq2seq", "transformer", "structured_self_attention")
VARIANTS: dict[str, dict[str, tuple[dict[str, Any], ...]]] = {
    "translation": {
        "luong": (
            *(
                {"score": score, "alignment": alignment}
                for score in ("dot", "general", "concat", "location")
                for alignment in ("global", "local_monotonic", "local_predictive")
            ),
            {"input_feeding": "false"},
        ),
        "lstmn": ({"fusion": "shallow"},),
        "transformer": ({"norm": "pre"}, {"score": "additive"}),
    },
    "language": {
        "mlp": ({"direct": "true"},),
        "lstm": ({"tied": "true", "embedding_size": 16},),
        "gpt": ({"positions": "sinusoidal"}, {"positions": "rotary"}, {"positions": "alibi"}),
        "ttt": ({"inner": "bare"},),
    },
    "sentences": {"lstmn_encoder": ({"num_layers": 2},), "transformer_encoder": ({"norm": "pre"},)},
}
IN_CROPS = ("gpt", "ttt")


def cases() -> dict[str, Case]:
    """Every case by its name: the plain systems, their variants, and translators of word pieces."""
    named = {}
    for family, systems in SIZES.items():
        build: Callable[..., Case] = {"translation": dates, "language": text, "sentences": sentences}[family]
        for model, sizes in systems.items():
            named[f"{family}/{model}"] = build(model, sizes)
            for variant in VARIANTS[family].get(model, ()):
                name = "-".join([model, *map(str, variant.values())])
                variant_case = letters if family == "translation" else build
                named[f"{family}/{name}"] = variant_case(model, {**sizes, **variant})
    named |= {f"translation/{model}-pieces": pieces(model, sizes) for model, sizes in SIZES["translation"].items()}
    shared = {**TRANSFORMER, "joint": "true", "shared_embeddings": "true"}
    named["translation/transformer-shared"] = pieces("transformer", shared)
    return named


def translation(recipe: str, model: str, settings: Mapping[str, Any], **examples: Sequence[str]) -> Case:
    """A translator; greedy translations of a few sentences are measured too."""
    common = {"batch_tokens": 256, "validated_sentences": 8, **settings}
    attends = model in ATTENDING
    return Case(family="translation", model=model, recipe=recipe, settings=common, attends=attends, **examples)


def dates(model: str, sizes: Mapping[str, Any]) -> Case:
    """Dates, character by character, without dropout."""
    return translation("dates", model, {"count": 300, "held_out": 24, **sizes}, inputs=DATES, outputs=DATE_ANSWERS)


def letters(model: str, sizes: Mapping[str, Any]) -> Case:
    """Letters in the opposite order, without dropout."""
    settings = {"count": 300, "held_out": 24, **sizes}
    return translation("reverse", model, settings, inputs=LETTERS, outputs=LETTER_ANSWERS)


def pieces(model: str, sizes: Mapping[str, Any]) -> Case:
    """Word pieces of the generated file, with the dropout and label smoothing of the recipe for files."""
    settings = {"vocab_size": 80, **sizes}
    return translation("pairs", model, settings, inputs=SENTENCES, outputs=[text[::-1] for text in SENTENCES])


def text(model: str, sizes: Mapping[str, Any]) -> Case:
    """A language model of the generated text, in crops or as a stream as its recipe has it."""
    batch = {"batch_rows": 6, "batch_length": 24 if model in IN_CROPS else 12, "vocab_size": 80}
    outputs = [f"{SENTENCES[0]}\n", "a red dog ran to town .\nthe old bird sat , slept\nthe hat\n" * 3]
    settings = {**batch, **sizes}
    return Case(family="language", model=model, recipe="text", settings=settings, inputs=PROMPTS, outputs=outputs)


def sentences(model: str, sizes: Mapping[str, Any]) -> Case:
    """A classifier of the generated sentences."""
    settings = {"batch_rows": 16, **sizes}
    return Case(family="sentences", model=model, recipe="sentences", settings=settings, inputs=SENTENCES)


def write_data(folder: Path) -> dict[str, dict[str, Path]]:
    """Generate the data files of recipes; the options that name them, by recipe."""
    chance, lines, labelled = random.Random(0), [], []
    for _ in range(300):
        animal = chance.choice(ANIMALS)
        adjectives = chance.sample(ADJECTIVES, k=chance.randint(0, 2))
        words = [chance.choice(ARTICLES), *adjectives, animal, chance.choice(VERBS), chance.choice(PLACES), "."]
        lines.append(" ".join(words))
        labelled.append(f"{animal.upper()} {lines[-1]}")
    contents = {
        "text.txt": lines,
        # every word spelled backwards, in the opposite order
        "pairs.tsv": [f"{line}\t{line[::-1]}" for line in lines],
        "sentences.all": labelled,
    }
    for name, content in contents.items():
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")
    return {
        "text": {"data": folder / "text.txt"},
        "pairs": {"source": folder / "pairs.tsv"},
        "sentences": {"data": folder / "sentences.all"},
    }


def train_arguments(case: Case, out: Path, files: Mapping[str, Mapping[str, Path]], **settings: Any) -> list[str]:
    """The command line that trains a case on one CPU thread, logging every step."""

    def words() -> Iterator[Any]:
        yield from (COMMANDS["train"], RECIPES[case.recipe], OPTIONS["out"], out, OPTIONS["model"], case.model)
        yield from (OPTIONS["device"], "cpu", OPTIONS["seed"], 0, OPTIONS["steps"], settings.pop("steps"))
        for option, path in files.get(case.recipe, {}).items():
            yield from (OPTIONS[option], path)
        for name, value in {"log": 1, **case.settings, **settings}.items():
            yield from (OPTIONS["set"], f"{SETTINGS[name]}={value}")

    return [str(word) for word in words()]
