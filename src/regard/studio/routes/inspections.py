"""Routes of inspections: POST one, then GET its weights, numbers, panels and heads."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from regard.studio import heads, numbers, panels
from regard.studio import swap as swapping
from regard.studio.computation import QueryRow
from regard.studio.export import exact_rows, export_page, picture
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
    AblateRequest,
    AblationResult,
    Computation,
    HeadOverview,
    Number,
    SwapOptions,
    SwapRequest,
    SwapResult,
)
from regard.studio.state import CurrentStudio

BYTES = "application/octet-stream"
RAW: dict[int | str, dict[str, Any]] = {200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}}
HTML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
MAX_EXACT, MAX_ROWS = 512 * 512, 64
"""Weights of a map, and rows of a larger one, that are sent in single precision."""

router = APIRouter(prefix="/api/inspections", tags=["inspections"])


@router.post("")
async def inspect(body: InspectionRequest, request: Request, studio: CurrentStudio) -> InspectionMessage:
    """Inspect an input: its output and every attention; the inspection is cached for a while."""

    def job() -> InspectionMessage:
        # in the job: loading takes seconds, and the number of torch's threads is set for the worker
        model = studio.registry.load(body.model)
        # the id contains the version of the weights, so a model that was trained again is inspected again
        cached = studio.inspections.get(inspection_id(model, body))
        return (cached or studio.inspections.add(make_inspection(model, body))).message

    return await studio.jobs.run(request, job)


# routes without `async` run in a pool of threads, and do not block the event loop
@router.get("/{name}/weights", response_class=Response, responses=RAW)
def weights(
    name: str, site: Annotated[Name, Query()], studio: CurrentStudio, head: Head = -1, *, exact: bool = False
) -> Response:
    """One head, a byte per weight; with `exact` a map of up to 262,144 weights is in single precision, little-endian.

    X-Type is float32 or uint8, and X-High the largest weight, which is that of byte 255.
    """
    matrix = studio.inspections.find(name).head(site, head)
    data, high = picture(matrix)
    is_exact = exact and matrix.numel() <= MAX_EXACT
    headers = {
        "X-Queries": str(matrix.shape[0]),
        "X-Keys": str(matrix.shape[1]),
        # repr has all digits
        "X-High": repr(high),
        "X-Type": "float32" if is_exact else "uint8",
    }
    content = exact_rows(matrix, 0, matrix.shape[0]) if is_exact else data
    return Response(content, media_type=BYTES, headers=headers)


@router.get("/{name}/row", response_class=Response, responses=RAW)
def row(
    name: str, *, site: Annotated[Name, Query()], query: Position, studio: CurrentStudio, head: Head = -1,
    count: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 1,
) -> Response:  # fmt: skip
    """The exact weights of `count` queries from `query` on, in single precision, little-endian."""
    return Response(exact_rows(studio.inspections.find(name).head(site, head), query, count), media_type=BYTES)


@router.get("/{name}/compute")
def compute(
    name: str, *, site: Annotated[Name, Query()], query: Position, studio: CurrentStudio, head: Position = 0,
    first_key: Position = 0, first_dimension: Position = 0,
) -> Computation:  # fmt: skip
    """All stages of attention for one query."""
    query_row = QueryRow(studio.inspections.find(name), site, head, query)
    return numbers.compute(query_row, first_key=first_key, first_dimension=first_dimension)


@router.get("/{name}/number")
def number(
    name: str, *, site: Annotated[Name, Query()], quantity: Quantity, query: Position, studio: CurrentStudio,
    head: Position = 0, key: Position = 0, dimension: Position = 0,
) -> Number:  # fmt: skip
    """One number: its value, its address, its inputs, and code that computes it."""
    query_row = QueryRow(studio.inspections.find(name), site, head, query)
    return numbers.number(query_row, quantity, key=key, dimension=dimension)


@router.get("/{name}/tokens")
def tokens(name: str, studio: CurrentStudio) -> TokenPredictions:
    """The log-probability of each token (panel next_token)."""
    return panels.token_predictions(studio.inspections.find(name))


@router.get("/{name}/next")
def next_tokens(name: str, position: Position, studio: CurrentStudio) -> NextTokens:
    """The prediction after one token, from logits to probabilities (panel next_token)."""
    return panels.next_tokens(studio.inspections.find(name), position)


@router.get("/{name}/state")
def state(name: str, studio: CurrentStudio) -> StateGrowth:
    """The size of the model's state after each token (panel state)."""
    return panels.state_growth(studio.inspections.find(name))


@router.get("/{name}/classes")
def classes(name: str, studio: CurrentStudio) -> ClassProbabilities:
    """The probability of each class, and the overlap of the query rows of attention (panel classes)."""
    return panels.class_probabilities(studio.inspections.find(name))


@router.get("/{name}/swaps")
def swaps(name: str, site: Annotated[Name, Query()], studio: CurrentStudio) -> SwapOptions:
    """The options for a swap of the attention at a site."""
    return swapping.options(studio.inspections.find(name), site)


@router.post("/{name}/swap")
async def swap(name: str, body: SwapRequest, request: Request, studio: CurrentStudio) -> SwapResult:
    """The same queries, keys and values with another mechanism; nothing is retrained."""
    # before the job, so that an unknown id is an error at once
    entry = studio.inspections.find(name)

    def job() -> SwapResult:
        message, inspection = swapping.swap(entry, body)
        # cached, so that the page can request the swapped weights by their id
        studio.inspections.add(inspection)
        return message

    return await studio.jobs.run(request, job)


@router.get("/{name}/heads")
def all_heads(name: str, studio: CurrentStudio) -> HeadOverview:
    """Measures of all heads."""
    return heads.all_heads(studio.inspections.find(name))


@router.get("/{name}/thumbnails", response_class=Response, responses=RAW)
def thumbnails(name: str, studio: CurrentStudio) -> Response:
    """Thumbnails of all heads, in the same order."""
    return Response(heads.thumbnails(studio.inspections.find(name)), media_type=BYTES)


@router.post("/{name}/ablate")
async def ablate(name: str, body: AblateRequest, request: Request, studio: CurrentStudio) -> AblationResult:
    """The output with and without a head."""
    entry = studio.inspections.find(name)
    # in the queue, because the output is computed twice
    return await studio.jobs.run(request, lambda: heads.ablate(entry, body))


@router.get("/{name}/page", response_class=HTMLResponse, responses=HTML)
def page(
    name: str, site: Annotated[Name, Query()], studio: CurrentStudio, head: Head = -1,
    lang: Literal["en", "zh"] = "en",
# the page is complete in itself, so that it can be saved as a file
) -> HTMLResponse:  # fmt: skip
    """One site as a self-contained HTML file."""
    return HTMLResponse(export_page(studio.inspections.find(name), site, head, lang))
