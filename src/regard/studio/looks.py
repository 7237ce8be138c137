"""A look: one text with every attention that it took, kept for a while under a name of its own.

Language models and classifiers have files of their own; here is what translates.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch

from regard.contracts import BOS, EOS, Sequences
from regard.decoding import Hypothesis, Limit, decode, forced_alignment, score
from regard.recipes.run import LONGEST_SOURCE
from regard.studio.errors import RefusedError
from regard.studio.examples import Worked
from regard.studio.kept import Kept, Written
from regard.studio.language import continue_again, read_look
from regard.studio.pieces import make_side
from regard.studio.schema import Look, LookRequest, Outcome, Side
from regard.studio.sentences import classify_again, classify_look
from regard.studio.shelf import Shelved
from regard.studio.sites import ALIGNMENT, look_at

MOST_NUMBERS = 128_000_000
"""Scores, weights, keys and values that one look may hold."""
LIMIT = Limit()
PLAINLY = {
    "translation": ", or use POST /api/translate, which keeps none",
    "language": ", or use POST /api/generate, which keeps none",
    "sentences": "",
}


def name_look(shelved: Shelved | Worked, request: LookRequest) -> str:
    """The same question to the same weights has the same name, on any day; an example is asked one question only."""
    words = [] if isinstance(shelved, Worked) else [request.text, request.answer]
    return hashlib.sha256(json.dumps([shelved.name, shelved.version, *words]).encode()).hexdigest()[:24]


def work_example(worked: Worked, request: LookRequest) -> Kept:
    """The one read of an example."""
    queries = worked.vectors.query_tokens
    message = Look(
        id=name_look(worked, request),
        model=worked.name,
        kind="example",
        text=worked.text,
        answer="",
        given=False,
        log_prob=0.0,
        num_dropped=0,
        sides=[make_side("source", worked.vectors.key_tokens), make_side("target", queries or ())],
        sites=[facts.describe(path) for path, facts in worked.sites.items()],
        milliseconds=0.0,
        milliseconds_per_token=None,
    )
    written = Written(source=[], answer=(), finished=False)
    return Kept(message=message, shelved=worked, written=written, reads=worked.read(), alignment=None)


def make_look(shelved: Shelved | Worked, request: LookRequest) -> Kept:
    """What the system makes of a text, with every attention open."""
    if isinstance(shelved, Worked):
        return work_example(shelved, request)
    name, check = name_look(shelved, request), partial(check_size, shelved)
    if shelved.kind == "language":
        return read_look(shelved, request, name, check)
    if shelved.kind == "sentences":
        return classify_look(shelved, request, name, check)
    return translate_look(shelved, request, name)


def translate_look(shelved: Shelved, request: LookRequest, name: str) -> Kept:
    """Translate, unless the answer is given; then read it again with every attention open."""
    translator = shelved.at_work()
    began = time.perf_counter()
    row = translator.tokenizers.source.encode(request.text)
    if not row:
        raise RefusedError("there is nothing to read in this text. Type a word.")
    source = [*row[: LONGEST_SOURCE - 1], EOS]
    check_size(shelved, len(source))
    if request.answer is None:
        hypothesis = search(shelved, source)
    else:
        hypothesis = forced(shelved, source, translator.tokenizers.target.encode(request.answer))
    seconds = None if request.answer is not None else time.perf_counter() - began
    written = Written(source=source, answer=hypothesis.ids, finished=hypothesis.finished)
    check_size(shelved, len(source), len(written.labels))
    reads = dict(look_at(translator.model, source, written.read).items()) if shelved.sites else {}
    message = Look(
        id=name,
        model=shelved.name,
        kind="translation",
        text=request.text,
        answer=translator.tokenizers.target.decode(hypothesis.ids),
        given=request.answer is not None,
        log_prob=hypothesis.log_prob,
        num_dropped=len(row) + 1 - len(source),
        sides=make_sides(shelved, written),
        sites=[
            *([ALIGNMENT] if hypothesis.alignment is not None else []),
            *(facts.describe(path) for path, facts in shelved.sites.items()),
        ],
        milliseconds=(time.perf_counter() - began) * 1e3,
        milliseconds_per_token=None if seconds is None else seconds * 1e3 / max(len(written.labels), 1),
    )
    return Kept(message=message, shelved=shelved, written=written, reads=reads, alignment=hypothesis.alignment)


def check_size(shelved: Shelved, num_read: int, num_written: int | None = None) -> None:
    """Refuse before memory is spent what would not fit in it."""
    said = num_read if num_written is None else num_written
    sizes = {"source": (num_read, num_read), "cross": (said, num_read), "target": (said, said)}
    numbers = 0
    for facts in shelved.sites.values():
        queries, keys = sizes[facts.kind]
        # every step of a tape has a memory of its own
        memories = queries * keys // 2 if facts.is_tape else keys
        numbers += 2 * facts.heads * queries * keys + memories * facts.numbers_per_key
    if numbers > MOST_NUMBERS:
        raise RefusedError(
            f"{num_read} tokens make {numbers / 1e6:,.0f} million numbers in all heads, and a look holds "
            f"{MOST_NUMBERS / 1e6:,.0f} million. Shorten the text{PLAINLY[shelved.kind]}."
        )


def search(shelved: Shelved, source: list[int]) -> Hypothesis:
    """The greedy answer, with the system's own alignment where it has one."""
    try:
        return decode(shelved.system.decoder, on_device(shelved, source), limit=LIMIT, return_alignment=True)[0][0]
    except ValueError as error:
        # weights that are not numbers, most likely
        raise RefusedError(str(error)) from None


def forced(shelved: Shelved, source: list[int], answer: list[int]) -> Hypothesis:
    """A given answer, as if the search had found it."""
    answer = answer[: LONGEST_SOURCE - 1]
    model = shelved.system.decoder
    read, labels = on_device(shelved, [BOS, *answer]), on_device(shelved, [*answer, EOS])
    asked = on_device(shelved, source)
    log_prob = score(model, asked, read, labels.ids).item()
    if not math.isfinite(log_prob):
        raise RefusedError(
            f"{shelved.name} finds this answer {log_prob} probable: its weights are broken. Train again."
        )
    alignment = forced_alignment(model, asked, read)
    return Hypothesis(
        ids=tuple(answer),
        log_prob=log_prob,
        score=log_prob,
        finished=True,
        alignment=None if alignment is None else alignment[0],
    )


def first_answer(kept: Kept) -> Outcome | None:
    """What the system answers by itself, which a look that was given no answer has found already."""
    if isinstance(kept.shelved, Worked) or kept.shelved.kind != "translation" or kept.message.given:
        return answer_again(kept)
    return Outcome(
        answer=kept.message.answer,
        tokens=kept.shelved.system.tokenizers.target.tokens(kept.written.answer),
        log_prob=kept.message.log_prob,
        log_prob_of_first=kept.message.log_prob,
    )


def answer_again(kept: Kept, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> Outcome | None:
    """What the system answers inside `around`, and how probable it finds there what it wrote before.

    A language model goes on with the text, and finds the text itself so probable. An example answers nothing.
    """
    shelved, written = kept.shelved, kept.written
    if isinstance(shelved, Worked):
        return None
    if shelved.kind == "language":
        return continue_again(kept, around)
    if shelved.kind == "sentences":
        return classify_again(kept, around)
    translator = shelved.at_work()
    source, read, labels = (on_device(shelved, row) for row in (written.source, written.read, written.labels))
    with around():
        hypothesis = search(shelved, written.source)
    with around():
        first = score(translator.model, source, read, labels.ids).item()
    target = translator.tokenizers.target
    return Outcome(
        answer=target.decode(hypothesis.ids),
        tokens=target.tokens(hypothesis.ids),
        log_prob=hypothesis.log_prob,
        log_prob_of_first=first,
    )


def on_device(shelved: Shelved, row: list[int]) -> Sequences:
    """One row where the model is."""
    device = shelved.system.device
    return Sequences(torch.tensor([row], device=device), torch.tensor([len(row)], device=device))


def make_sides(shelved: Shelved, written: Written) -> list[Side]:
    """Source, target, and what the decoder read, as tokens."""
    source, target = shelved.system.tokenizers.source, shelved.system.tokenizers.target
    return [
        make_side("source", source.tokens(written.source)),
        make_side("target", target.tokens(written.labels)),
        make_side("read", target.tokens(written.read)),
    ]
