"""How good a trained model is on a split: one report of all that was measured."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.data import Pair, make_examples
from regard.evaluation import Circumstances, Report, Speed, TokenisedLowercase, bleu, by_length, chrf, exact_match
from regard.recipes.fit import count_parameters
from regard.recipes.measure import forms_of, measure_perplexity, quality_of
from regard.recipes.translator import LONGEST_SOURCE, Translator, make_search
from regard.storage import Checkpoint, load_facts

WORD_EDGES, CHARACTER_EDGES = (5, 10, 15, 20, 30), (10, 20, 30, 40, 50)


def evaluate(translator: Translator, pairs: Sequence[Pair], *, split: str, beam: int = 5, steps: int = 0) -> Report:
    """Translate the sources and compare with the targets; `steps` are those the model was trained for."""
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    began = time.perf_counter()
    answers = translator.answer(sources, make_search(beam), return_attention=False)
    seconds = time.perf_counter() - began
    hypotheses = [answer.text for answer in answers]
    corpus = translator.config.data
    told = [(form, bleu(hypotheses, references, form=form)) for form in forms_of(corpus)]
    characters = translator.tokenizers.source.kind == "characters"
    return Report(
        circumstances=circumstances(translator, split=split, sentences=len(pairs), beam=beam, steps=steps),
        bleu=next((found for form, found in told if not isinstance(form, TokenisedLowercase)), None),
        bleu_tokenised=next((found for form, found in told if isinstance(form, TokenisedLowercase)), None),
        chrf=chrf(hypotheses, references),
        exact_match=exact_match(hypotheses, references),
        perplexity=measure_perplexity(
            translator.model, make_examples(pairs, translator.tokenizers, LONGEST_SOURCE - 1)
        ),
        by_length=by_length(
            [len(source) if characters else len(source.split()) for source in sources],
            hypotheses,
            references,
            metric=quality_of(corpus)[1],
            edges=CHARACTER_EDGES if characters else WORD_EDGES,
        ),
        speed=Speed.of(
            seconds=seconds, tokens=sum(len(answer.tokens) for answer in answers), hardware=hardware(translator.device)
        ),
    )


def circumstances(translator: Translator, *, split: str, sentences: int, beam: int, steps: int) -> Circumstances:
    """What was evaluated, and how."""
    run = translator.config
    languages = "-".join(name for name in run.data.languages if name)
    form = getattr(run.data, "form", "")
    return Circumstances(
        system=run.model_name,
        data=" ".join(part for part in (run.recipe, languages, form) if part),
        split=split,
        sentences=sentences,
        search="greedy" if beam == 1 else f"beam {beam}",
        parameters=count_parameters(translator.model),
        steps=steps,
        seed=run.training.seed,
    )


def data_of(run: Any) -> str:
    """The recipe, and the file where it is one's own."""
    file = getattr(run.data, "data", None)
    return run.recipe if file is None else f"{run.recipe} {Path(file).name}"


def steps_of(folder: Path) -> int:
    """After how many steps the weights in a folder were taken; of an average, its last."""
    facts = load_facts(Checkpoint(folder).weights)
    return int(facts.get("step", max(facts.get("average", [0]))))


def hardware(device: torch.device) -> str:
    """The machine, in a few words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"
