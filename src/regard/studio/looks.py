"""A look: one translation with every attention that it took, kept for a while under a name of its own."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Lock

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.contracts import BOS, EOS, Sequences
from regard.decoding import Hypothesis, Limit, decode, forced_alignment, score
from regard.recipes.translator import LONGEST_SOURCE
from regard.studio.errors import MissingError
from regard.studio.examples import Worked
from regard.studio.pieces import make_side
from regard.studio.schema import Look, LookRequest, Outcome, Side
from regard.studio.shelf import Shelved
from regard.studio.sites import ALIGNMENT, joined, look_at

MOST_CELLS = 64_000_000
"""Weights that one look may form."""
MOST_BYTES, MOST_LOOKS = 1 << 30, 64
LIMIT = Limit()


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a system read and wrote, as tokens."""

    source: list[int]
    answer: tuple[int, ...]
    finished: bool

    @property
    def labels(self) -> list[int]:
        """What each step writes."""
        return [*self.answer, *([EOS] if self.finished else [])]

    @property
    def read(self) -> list[int]:
        """What each step reads."""
        return [BOS, *self.labels[:-1]]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A look with its tensors: what the page is told, and what it may still ask for."""

    message: Look
    shelved: Shelved | Worked
    written: Written
    reads: dict[str, tuple[AttentionMap, ...]]
    alignment: Float[Tensor, "T source"] | None
    swapped: dict[str, Float[Tensor, "H Q K"]] = field(default_factory=dict)

    def weights(self, path: str) -> Float[Tensor, "H Q K"]:
        """All heads of one site."""
        if path in self.swapped:
            return self.swapped[path]
        if path == ALIGNMENT.path and self.alignment is not None:
            return self.alignment[None].float()
        return joined(self.site_reads(path))

    def site_reads(self, path: str) -> tuple[AttentionMap, ...]:
        """The reads of one site, in order."""
        if path not in self.reads:
            there = ", ".join(self.reads) or "none"
            raise MissingError(f"{self.message.model} has no attention at {path!r}; there is {there}.")
        return self.reads[path]

    @property
    def size(self) -> int:
        """Bytes that it holds, about."""
        tensors = [tensor for reads in self.reads.values() for read in reads for tensor in vars(read).values()]
        kept = (*tensors, self.alignment, *self.swapped.values())
        return sum(tensor.nbytes for tensor in kept if isinstance(tensor, Tensor))


class Looks:
    """The last looks, as many as fit."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = Lock()

    def find(self, name: str) -> Kept:
        """A look that is still kept."""
        with self._lock:
            if name not in self._kept:
                raise MissingError(f"the look {name!r} is no longer kept. Ask for it again with POST /api/looks.")
            self._kept.move_to_end(name)
            return self._kept[name]

    def has(self, name: str) -> bool:
        """Whether it is still kept."""
        with self._lock:
            return name in self._kept

    def keep(self, kept: Kept) -> Kept:
        """Hold on to it, and let go of the oldest where there is no room for both."""
        with self._lock:
            self._kept[kept.message.id] = kept
            self._kept.move_to_end(kept.message.id)
            while len(self._kept) > 1 and (
                len(self._kept) > MOST_LOOKS or sum(one.size for one in self._kept.values()) > MOST_BYTES
            ):
                self._kept.popitem(last=False)
        return kept


def name_look(shelved: Shelved | Worked, request: LookRequest) -> str:
    """The same question to the same weights has the same name, on any day; an example is asked one question only."""
    answer = "\1" if request.answer is None else request.answer
    words = ("", "") if isinstance(shelved, Worked) else (request.text, answer)
    asked = "\0".join((shelved.name, shelved.version, *words))
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def work_example(worked: Worked, request: LookRequest) -> Kept:
    """The one read of an example."""
    queries = worked.vectors.query_tokens
    message = Look(
        id=name_look(worked, request),
        model=worked.name,
        text=worked.text,
        answer="",
        given=False,
        log_prob=0.0,
        num_dropped=0,
        sides=[make_side("source", worked.vectors.key_tokens), make_side("target", queries or ())],
        sites=[facts.describe(path) for path, facts in worked.sites.items()],
        milliseconds=0.0,
        milliseconds_per_token=0.0,
    )
    written = Written(source=[], answer=(), finished=False)
    return Kept(message=message, shelved=worked, written=written, reads=worked.read(), alignment=None)


def make_look(shelved: Shelved | Worked, request: LookRequest) -> Kept:
    """Translate, unless the answer is given; then read it again with every attention open."""
    if isinstance(shelved, Worked):
        return work_example(shelved, request)
    translator = shelved.at_work()
    began = time.perf_counter()
    row = translator.tokenizers.source.encode(request.text)
    if not row:
        raise ValueError("there is nothing to read in this text. Type a word.")
    source = [*row[: LONGEST_SOURCE - 1], EOS]
    check_size(shelved, len(source), None)
    if request.answer is None:
        hypothesis = search(shelved, source)
    else:
        hypothesis = forced(shelved, source, translator.tokenizers.target.encode(request.answer))
    seconds = time.perf_counter() - began
    written = Written(source=source, answer=hypothesis.ids, finished=hypothesis.finished)
    check_size(shelved, len(source), len(written.labels))
    reads = dict(look_at(translator.model, source, written.read).items()) if shelved.sites else {}
    message = Look(
        id=name_look(shelved, request),
        model=shelved.name,
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
        milliseconds_per_token=seconds * 1e3 / max(len(written.labels), 1),
    )
    return Kept(message=message, shelved=shelved, written=written, reads=reads, alignment=hypothesis.alignment)


def check_size(shelved: Shelved, num_read: int, num_written: int | None) -> None:
    """Refuse before memory is spent what would not fit in it."""
    said = num_read if num_written is None else num_written
    areas = {"source": num_read**2, "cross": said * num_read, "target": said**2, "alignment": 0}
    cells = sum(facts.heads * areas[facts.kind] for facts in shelved.sites.values())
    if cells > MOST_CELLS:
        raise ValueError(
            f"{num_read} tokens make {cells / 1e6:,.0f} million weights in all heads, and a look holds "
            f"{MOST_CELLS / 1e6:,.0f} million. Shorten the text, or use POST /api/translate, which forms none."
        )


def search(shelved: Shelved, source: list[int]) -> Hypothesis:
    """The greedy answer, with the system's own alignment where it has one."""
    model = shelved.translator.model
    return decode(model, on_device(shelved, source), limit=LIMIT, return_alignment=True)[0][0]


def forced(shelved: Shelved, source: list[int], answer: list[int]) -> Hypothesis:
    """A given answer, as if the search had found it."""
    answer = answer[: LONGEST_SOURCE - 1]
    model = shelved.translator.model
    read, labels = on_device(shelved, [BOS, *answer]), on_device(shelved, [*answer, EOS])
    asked = on_device(shelved, source)
    log_prob = score(model, asked, read, labels.ids).item()
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
    if isinstance(kept.shelved, Worked) or kept.message.given:
        return answer_again(kept)
    return Outcome(
        answer=kept.message.answer,
        tokens=kept.shelved.translator.tokenizers.target.tokens(kept.written.answer),
        log_prob=kept.message.log_prob,
        log_prob_of_first=kept.message.log_prob,
    )


def answer_again(kept: Kept, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> Outcome | None:
    """What the system answers inside `around`, and how probable it finds there what it wrote before.

    An example answers nothing.
    """
    shelved, written = kept.shelved, kept.written
    if isinstance(shelved, Worked):
        return None
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
    device = shelved.translator.device
    return Sequences(torch.tensor([row], device=device), torch.tensor([len(row)], device=device))


def make_sides(shelved: Shelved, written: Written) -> list[Side]:
    """Source, target, and what the decoder read, as tokens."""
    source, target = shelved.translator.tokenizers.source, shelved.translator.tokenizers.target
    return [
        make_side("source", source.tokens(written.source)),
        make_side("target", target.tokens(written.labels)),
        make_side("read", target.tokens(written.read)),
    ]
