"""How good a language model is on a split: perplexity, exact about what is counted, and how far back it looks."""

import time

from regard.data.streams import make_stream
from regard.evaluation import Circumstances, Speed
from regard.evaluation.language_report import LanguageReport, Reach
from regard.models import LANGUAGE_MODELS
from regard.recipes.evaluate import data_of, hardware
from regard.recipes.fit import count_parameters
from regard.recipes.language.measure import spans, sure_likelihood
from regard.recipes.language.writer import Writer


def evaluate_language(
    writer: Writer, text: str, *, split: str, steps: int = 0, rows: int = 1, crops: int | None = None
) -> LanguageReport:
    """Read a text and judge every prediction; `steps` are those the model was trained for.

    One row carries the state through the whole text. `crops` reads pieces of so many tokens instead, each from the
    start, as models that learned from crops are compared.
    """
    run = writer.config
    stream = make_stream(text, writer.tokenizer)
    began = time.perf_counter()
    found = sure_likelihood(writer.model, stream, rows=rows, piece=crops or 256, fresh=crops is not None)
    seconds = time.perf_counter() - began
    attends = LANGUAGE_MODELS[run.model_name].attends
    reaches = spans(writer.model, stream) if attends else {}
    carried = "one stream, the state carried" if rows == 1 else f"{rows} streams side by side, each from the start"
    return LanguageReport(
        circumstances=Circumstances(
            system=run.model_name,
            data=data_of(run),
            split=split,
            sentences=text.count("\n"),
            search="",
            parameters=count_parameters(writer.model),
            steps=steps,
            seed=run.training.seed,
        ),
        reading=carried if crops is None else f"crops of {crops} tokens, each from the start",
        likelihood=found,
        perplexity=found.perplexity,
        perplexity_per_token=found.perplexity_per_token,
        bits_per_character=found.bits_per_character,
        loss=found.loss,
        reaches=tuple(Reach.of(path, mass) for path, mass in reaches.items()),
        speed=Speed.of(seconds=seconds, tokens=found.tokens, hardware=hardware(writer.device)),
    )
