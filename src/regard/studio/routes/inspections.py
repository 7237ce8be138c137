"""Inspections: made once, then asked for their numbers."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from regard.studio import heads, numbers, panels
from regard.studio import swap as swapping
from regard.studio.computation import QueryRow
from regard.studio.export import exact_row, export_page, picture
from regard.studio.inspections import inspection_id, make_inspection
from regard.studio.schema.base import Head, Name, Position, Quantity
from regard.studio.schema.inspections import (
    ClassProbabilities,
    InspectionMessage,
    InspectionRequest,
    NextTokens,
    StateGrowth,
    TokenPredictions,
)
from regard.studio.schema.numbers import (
    Ablated,
    AblateRequest,
    Computed,
    Heads,
    Number,
    SwapOptions,
    Swapped,
    SwapRequest,
)
from regard.studio.state import CurrentStudio

BYTES = "application/octet-stream"
RAW: dict[int | str, dict[str, Any]] = {200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}}
HTML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}

router = APIRouter(prefix="/api/inspections", tags=["inspections"])


@router.post("")
async def inspect(body: InspectionRequest, request: Request, studio: CurrentStudio) -> InspectionMessage:
    """Inspect an input: its output, and every attention, which stay cached for a while."""

    def job() -> InspectionMessage:
        model = studio.registry.load(body.model)
        cached = studio.inspections.get(inspection_id(model, body))
        return (cached or studio.inspections.add(make_inspection(model, body))).message

    return await studio.jobs.run(request, job)


@router.get("/{name}/weights", response_class=Response, responses=RAW)
def weights(name: str, site: Annotated[Name, Query()], studio: CurrentStudio, head: Head = -1) -> Response:
    """One head as a picture, a byte a weight; X-High is the weight that 255 stands for."""
    matrix = studio.inspections.find(name).head(site, head)
    data, high = picture(matrix)
    headers = {"X-Queries": str(matrix.shape[0]), "X-Keys": str(matrix.shape[1]), "X-High": repr(high)}
    return Response(data, media_type=BYTES, headers=headers)


@router.get("/{name}/row", response_class=Response, responses=RAW)
def row(name: str, site: Annotated[Name, Query()], query: Position, studio: CurrentStudio, head: Head = -1) -> Response:
    """The exact weights of one query, single precision, low byte first."""
    return Response(exact_row(studio.inspections.find(name).head(site, head), query), media_type=BYTES)


@router.get("/{name}/compute")
def compute(
    name: str, *, site: Annotated[Name, Query()], query: Position, studio: CurrentStudio, head: Position = 0,
    first_key: Position = 0, first_dimension: Position = 0,
) -> Computed:  # fmt: skip
    """One query through the pipeline."""
    query_row = QueryRow(studio.inspections.find(name), site, head, query)
    return numbers.compute(query_row, first_key=first_key, first_dimension=first_dimension)


@router.get("/{name}/number")
def number(
    name: str, *, site: Annotated[Name, Query()], quantity: Quantity, query: Position, studio: CurrentStudio,
    head: Position = 0, key: Position = 0, dimension: Position = 0,
) -> Number:  # fmt: skip
    """One number: its value, its address, the numbers it comes from, and code that computes it."""
    query_row = QueryRow(studio.inspections.find(name), site, head, query)
    return numbers.number(query_row, quantity, key=key, dimension=dimension)


@router.get("/{name}/tokens")
def tokens(name: str, studio: CurrentStudio) -> TokenPredictions:
    """How probable each token was (panel next_token)."""
    return panels.token_predictions(studio.inspections.find(name))


@router.get("/{name}/next")
def next_tokens(name: str, position: Position, studio: CurrentStudio) -> NextTokens:
    """What is predicted after one token, from logits to probabilities (panel next_token)."""
    return panels.next_tokens(studio.inspections.find(name), position)


@router.get("/{name}/state")
def state(name: str, studio: CurrentStudio) -> StateGrowth:
    """How the state of the model grows (panel state)."""
    return panels.state_growth(studio.inspections.find(name))


@router.get("/{name}/classes")
def classes(name: str, studio: CurrentStudio) -> ClassProbabilities:
    """How probable each class is, and how alike the query rows of attention are (panel classes)."""
    return panels.class_probabilities(studio.inspections.find(name))


@router.get("/{name}/swaps")
def swaps(name: str, site: Annotated[Name, Query()], studio: CurrentStudio) -> SwapOptions:
    """What the attention at a site can be swapped for."""
    return swapping.options(studio.inspections.find(name), site)


@router.post("/{name}/swap")
async def swap(name: str, body: SwapRequest, request: Request, studio: CurrentStudio) -> Swapped:
    """The same queries, keys and values under another rule; nothing is retrained."""
    entry = studio.inspections.find(name)

    def job() -> Swapped:
        message, swapped = swapping.swap(entry, body)
        studio.inspections.add(swapped)
        return message

    return await studio.jobs.run(request, job)


@router.get("/{name}/heads")
def all_heads(name: str, studio: CurrentStudio) -> Heads:
    """All heads in figures."""
    return heads.all_heads(studio.inspections.find(name))


@router.get("/{name}/thumbnails", response_class=Response, responses=RAW)
def thumbnails(name: str, studio: CurrentStudio) -> Response:
    """All heads as small pictures, in the same order."""
    return Response(heads.thumbnails(studio.inspections.find(name)), media_type=BYTES)


@router.post("/{name}/ablate")
async def ablate(name: str, body: AblateRequest, request: Request, studio: CurrentStudio) -> Ablated:
    """The output without a head."""
    entry = studio.inspections.find(name)
    return await studio.jobs.run(request, lambda: heads.ablate(entry, body))


@router.get("/{name}/page", response_class=HTMLResponse, responses=HTML)
def page(
    name: str, site: Annotated[Name, Query()], studio: CurrentStudio, head: Head = -1,
    lang: Literal["en", "zh"] = "en",
) -> HTMLResponse:  # fmt: skip
    """One site as a file that opens from disk."""
    return HTMLResponse(export_page(studio.inspections.find(name), site, head, lang))
