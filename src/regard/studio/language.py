"""A language model on the page: a text read token by token, what is expected behind each, and how it goes on.

Shapes: T tokens.
"""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.streams import decode_text
from regard.decoding import evaluating
from regard.recipes import Writer
from regard.studio import snippets
from regard.studio.errors import MissingError, RefusedError
from regard.studio.kept import Kept, Written
from regard.studio.pieces import make_text
from regard.studio.schema import (
    Candidate,
    GenerateAnswer,
    GenerateRequest,
    Look,
    LookRequest,
    NextTokens,
    Outcome,
    Reading,
    WrittenToken,
)
from regard.studio.shelf import Shelved
from regard.studio.sites import read_at
from regard.studio.states import grow

LONGEST_READ = 512
"""Tokens of a text that a look reads, where the model's own context is not shorter."""
MOST_SHOWN, CONTINUED = 10, 8
"""Candidates that are listed; tokens that tell what a change of the attention does."""


def read_tokens(shelved: Shelved, text: str) -> tuple[list[int], int]:
    """The tokens of a text that are read, and how many are left out."""
    writer = shelved.at_work()
    whole = writer.encode(text) if text.strip() else []
    if not whole:
        raise RefusedError("there is nothing to read in this text. Type a word.")
    longest = min(getattr(writer.run.model, "context", LONGEST_READ), LONGEST_READ)
    return whole[:longest], max(len(whole) - longest, 0)


def read_look(shelved: Shelved, request: LookRequest, name: str, check: Callable[[int], None]) -> Kept:
    """A text read with every attention open; `check` refuses more tokens than memory holds."""
    if request.answer is not None:
        raise RefusedError(f"{shelved.name} is a language model and answers nothing. Leave the answer out.")
    writer, began = shelved.at_work(), time.perf_counter()
    ids, num_dropped = read_tokens(shelved, request.text)
    check(len(ids))
    maps, done = read_at(writer.model, ids)
    with torch.inference_mode():
        logits = writer.model.readout(done.features)[0]
        log_probs = logits.double().log_softmax(-1).cpu()
    if not log_probs.isfinite().all():
        raise RefusedError(f"{shelved.name} gives no probabilities: its weights are broken. Train again.")
    read_in = time.perf_counter()
    reading = make_reading(shelved, ids, log_probs, request.text)
    now = time.perf_counter()
    message = Look(
        id=name,
        model=shelved.name,
        kind="language",
        text=request.text,
        answer="",
        given=False,
        log_prob=sum(one for one in reading.log_probs if one is not None),
        num_dropped=num_dropped,
        sides=[make_text(writer.tokenizer.tokens(ids))],
        sites=[facts.describe(path) for path, facts in shelved.sites.items()],
        milliseconds=(read_in - began) * 1e3,
        milliseconds_per_token=(now - read_in) * 1e3 / len(ids),
    )
    written = Written(source=ids, answer=(), finished=False)
    return Kept(
        message=message, shelved=shelved, written=written, reads=dict(maps.items()), logits=logits, reading=reading
    )


def make_reading(shelved: Shelved, ids: list[int], log_probs: Float[Tensor, "T vocab"], text: str) -> Reading:
    """How probable each token was where it stands, and what the model keeps of it all."""
    writer = shelved.system
    growth = grow(writer.model, ids, writer.device)
    found = log_probs[torch.arange(len(ids) - 1), torch.tensor(ids[1:], dtype=torch.long)]
    ranks = (log_probs[:-1] > found[:, None]).sum(-1) + 1
    return Reading(
        log_probs=[None, *found.tolist()],
        ranks=[None, *ranks.tolist()],
        perplexity=math.exp(min(-found.mean().item(), 700.0)) if len(ids) > 1 else None,
        vocab_size=log_probs.shape[-1],
        at_start=growth.at_start,
        taken=growth.taken,
        filled=growth.filled,
        parts=growth.parts,
        unknown=writer.unknown_in(text),
    )


def reading_of(kept: Kept) -> Reading:
    """The reading of a look at a language model."""
    if kept.reading is None:
        raise RefusedError(
            f"this look is no reading: {kept.message.model} is no language model, or the look is a swap's. GET "
            f"/api/state tells what each system is."
        )
    return kept.reading


def next_tokens(kept: Kept, place: int) -> NextTokens:
    """The readout behind one token: logits, their exponentials, their shares."""
    ids = kept.written.source
    vocab_size = reading_of(kept).vocab_size
    assert kept.logits is not None
    if place >= len(ids):
        raise MissingError(f"{len(ids)} tokens were read, counted from 0; there is no token {place}.")
    logits = kept.logits[place].double().cpu()
    highest = logits.max()
    exponentials = (logits - highest).exp()
    shares = logits.softmax(-1)
    best = logits.topk(min(MOST_SHOWN, vocab_size)).indices.tolist()

    def candidate(token: int) -> Candidate:
        return Candidate(
            id=token,
            token=kept_token(kept, token),
            logit=logits[token].item(),
            exponential=exponentials[token].item(),
            probability=shares[token].item(),
            rank=int((logits > logits[token]).sum()) + 1,
        )

    address = f"readout logits[{place}]"
    return NextTokens(
        place=place,
        highest=highest.item(),
        total=exponentials.sum().item(),
        entropy=torch.special.entr(shares).sum().item(),
        vocab_size=vocab_size,
        candidates=[candidate(token) for token in best],
        true=candidate(ids[place + 1]) if place + 1 < len(ids) else None,
        address=address,
        snippet=snippets.softmax_of(kept, address, place, best),
    )


def kept_token(kept: Kept, token: int) -> str:
    """A token's name; the end of a line is one."""
    side = make_text([*system_of(kept).system.tokenizer.tokens([token])])
    return side.pieces[0].text


def system_of(kept: Kept) -> Shelved:
    """The system of a look that is no example."""
    assert isinstance(kept.shelved, Shelved)
    return kept.shelved


def go_on(shelved: Shelved, request: GenerateRequest) -> GenerateAnswer:
    """How a text goes on, each token with the probability that the model itself gives it."""
    writer, began = shelved.at_work(), time.perf_counter()
    try:
        options = {"temperature": request.temperature, "top_p": request.top_p, "seed": request.seed}
        pieces = list(writer.stream([request.text], max_tokens=request.max_tokens, **options))
    except ValueError as error:
        raise RefusedError(str(error)) from None
    if not all(math.isfinite(piece.log_prob) for piece in pieces):
        raise RefusedError(f"{shelved.name} gives no probabilities: its weights are broken. Train again.")
    return GenerateAnswer(
        text="".join(piece.text for piece in pieces),
        tokens=[WrittenToken(token=piece.token, text=piece.text, log_prob=piece.log_prob) for piece in pieces],
        unknown=writer.unknown_in(request.text),
        milliseconds=(time.perf_counter() - began) * 1e3,
    )


def continue_again(kept: Kept, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> Outcome:
    """The most probable next tokens inside `around`, and how probable the text itself is there.

    The text is read from its beginning for each of them, so that what is changed inside sees all of it.
    """
    shelved = system_of(kept)
    writer, ids = shelved.at_work(), kept.written.source
    said: list[int] = []
    log_prob = first = 0.0
    room = max(getattr(writer.run.model, "context", LONGEST_READ) - len(ids), 0)
    for number in range(1 + min(CONTINUED - 1, room)):
        with around():
            log_probs = expected(writer, [*ids, *said])
        if number == 0:
            first = log_probs[torch.arange(len(ids) - 1), torch.tensor(ids[1:], dtype=torch.long)].sum().item()
        best = int(log_probs[-1].argmax())
        log_prob += log_probs[-1, best].item()
        said.append(best)
    tokens = [kept_token(kept, token) for token in said]
    text = decode_text(said, writer.tokenizer)
    return Outcome(answer=text, tokens=tokens, log_prob=log_prob, log_prob_of_first=first)


def expected(writer: Writer, ids: list[int]) -> Float[Tensor, "T vocab"]:
    """The log-probability of every token behind each of these."""
    with evaluating(writer.model):
        logits = writer.model(torch.tensor([ids], device=writer.device))[0]
        return logits.double().log_softmax(-1).cpu()
