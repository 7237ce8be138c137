"""Looks: made once, then asked about."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from regard.studio import heads, numbers
from regard.studio import swap as swapping
from regard.studio.binary import exact_row, picture
from regard.studio.language import next_tokens as expected_next
from regard.studio.language import reading_of
from regard.studio.looks import make_look, name_look
from regard.studio.page import export_page
from regard.studio.row import Row
from regard.studio.schema import (
    Ablated,
    AblateRequest,
    Computed,
    Head,
    Heads,
    Look,
    LookRequest,
    Name,
    NextTokens,
    Number,
    Place,
    Quantity,
    Reading,
    Sorted,
    SwapOptions,
    Swapped,
    SwapRequest,
)
from regard.studio.sentences import sorted_of
from regard.studio.studio import Here

BYTES = "application/octet-stream"
RAW: dict[int | str, dict[str, Any]] = {200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}}
HTML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}

router = APIRouter(prefix="/api/looks", tags=["looks"])


@router.post("")
async def look(asked: LookRequest, request: Request, studio: Here) -> Look:
    """Read a text, answer it where the system does, and keep every attention that it took."""

    def job() -> Look:
        shelved = studio.shelf.take(asked.model)
        kept = studio.looks.get(name_look(shelved, asked)) or studio.looks.keep(make_look(shelved, asked))
        return kept.message

    return await studio.work.run(request, job)


@router.get("/{name}/weights", response_class=Response, responses=RAW)
def weights(name: str, site: Annotated[Name, Query()], studio: Here, head: Head = -1) -> Response:
    """One head as a picture, a byte a weight; X-High is the weight that 255 stands for."""
    found = studio.looks.find(name).head(site, head)
    data, high = picture(found)
    told = {"X-Queries": str(found.shape[0]), "X-Keys": str(found.shape[1]), "X-High": repr(high)}
    return Response(data, media_type=BYTES, headers=told)


@router.get("/{name}/row", response_class=Response, responses=RAW)
def row(name: str, site: Annotated[Name, Query()], query: Place, studio: Here, head: Head = -1) -> Response:
    """The exact weights of one query, single precision, low byte first."""
    found = studio.looks.find(name).head(site, head)
    return Response(exact_row(found, query), media_type=BYTES)


@router.get("/{name}/compute")
def compute(
    name: str, *, site: Annotated[Name, Query()], query: Place, studio: Here, head: Place = 0, first_key: Place = 0,
    first_dimension: Place = 0,
) -> Computed:  # fmt: skip
    """One query through the pipeline."""
    asked = Row(studio.looks.find(name), site, head, query)
    return numbers.compute(asked, first_key=first_key, first_dimension=first_dimension)


@router.get("/{name}/number")
def number(
    name: str, *, site: Annotated[Name, Query()], quantity: Quantity, query: Place, studio: Here, head: Place = 0,
    key: Place = 0, dimension: Place = 0,
) -> Number:  # fmt: skip
    """One number: its value, its address, what it is made of, and code that makes it again."""
    asked = Row(studio.looks.find(name), site, head, query)
    return numbers.number(asked, quantity, key=key, dimension=dimension)


@router.get("/{name}/reading")
def reading(name: str, studio: Here) -> Reading:
    """How probable a language model found each token, and what it keeps of the text."""
    return reading_of(studio.looks.find(name))


@router.get("/{name}/next")
def next_tokens(name: str, place: Place, studio: Here) -> NextTokens:
    """What a language model expects behind one token, from logits to probabilities."""
    return expected_next(studio.looks.find(name), place)


@router.get("/{name}/classes")
def classes(name: str, studio: Here) -> Sorted:
    """How probable each class is, and how alike the rows of attention are."""
    return sorted_of(studio.looks.find(name))


@router.get("/{name}/swaps")
def swaps(name: str, site: Annotated[Name, Query()], studio: Here) -> SwapOptions:
    """What the attention at a site can be swapped for."""
    return swapping.options(studio.looks.find(name), site)


@router.post("/{name}/swap")
async def swap(name: str, asked: SwapRequest, request: Request, studio: Here) -> Swapped:
    """The same queries, keys and values under another rule; nothing is retrained."""
    kept = studio.looks.find(name)

    def job() -> Swapped:
        message, held = swapping.swap(kept, asked)
        studio.looks.keep(held)
        return message

    return await studio.work.run(request, job)


@router.get("/{name}/heads")
def all_heads(name: str, studio: Here) -> Heads:
    """All heads in figures."""
    return heads.all_heads(studio.looks.find(name))


@router.get("/{name}/thumbnails", response_class=Response, responses=RAW)
def thumbnails(name: str, studio: Here) -> Response:
    """All heads as small pictures, in the same order."""
    return Response(heads.thumbnails(studio.looks.find(name)), media_type=BYTES)


@router.post("/{name}/ablate")
async def ablate(name: str, asked: AblateRequest, request: Request, studio: Here) -> Ablated:
    """What the system answers without a head."""
    kept = studio.looks.find(name)
    return await studio.work.run(request, lambda: heads.ablate(kept, asked))


@router.get("/{name}/page", response_class=HTMLResponse, responses=HTML)
def page(
    name: str, site: Annotated[Name, Query()], studio: Here, head: Head = -1, lang: Literal["en", "zh"] = "en"
) -> HTMLResponse:
    """One site as a file that opens from disk."""
    return HTMLResponse(export_page(studio.looks.find(name), site, head, lang))
