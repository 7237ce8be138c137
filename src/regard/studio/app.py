"""The ASGI application: routes, error responses, the files of the page, and the guard."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from regard._utils import VERSION
from regard.serving import BusyError, GoneError, Guard, MissingError, RefusedError
from regard.studio.routes import experiments, inspections, pages
from regard.studio.schema.base import Problem
from regard.studio.state import Studio

GONE = 499
"""The client has disconnected or cancelled its job; the code of nginx."""
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description}
    for status, description in (
        (400, "bad request"), (401, "no valid token"), (404, "not found"), (413, "too large"),
        (422, "refused, with the reason"), (503, "busy"),
    )
}  # fmt: skip
# in the installed package, where `make page` writes the built page
STATIC = Path(str(files("regard.studio").joinpath("static")))
NOT_BUILT_PAGE = (
    "<!doctype html><meta charset=utf-8><title>regard studio</title><p>The page is not built. "
    "Run <code>make page</code> in the repository. The API works: send <code>Authorization: Bearer TOKEN</code> to "
    "<code>GET /api/state</code>."
)


def is_built() -> bool:
    """True if the page was built from web/."""
    return (STATIC / "index.html").is_file()


def make_app(studio: Studio, *, token: str, hosts: Iterable[str]) -> FastAPI:
    """The studio as an ASGI application for these hosts and this token."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        # the code behind `yield` runs when the server shuts down
        studio.close()

    app = FastAPI(
        title="regard studio",
        version=VERSION,
        lifespan=lifespan,
        # the interactive documentation loads scripts of other hosts, which the content policy forbids
        docs_url=None,
        redoc_url=None,
        # below /api, where the guard requires the token
        openapi_url="/api/openapi.json",
        responses=ERRORS,
    )
    # `studio_of` takes the studio from here for each request
    app.state.studio = studio
    app.include_router(pages.router)
    app.include_router(inspections.router)
    app.include_router(experiments.router)
    for error_type, handler in HANDLERS.items():
        app.add_exception_handler(error_type, handler)
    # matrices of weights compress well, short messages hardly
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    # added last, so that it runs first
    app.add_middleware(Guard, token=token, hosts=hosts)
    # last, because this path matches every request; html=True serves index.html for a folder
    if is_built():
        app.mount("/", StaticFiles(directory=STATIC, html=True), name="page")
    else:
        app.add_api_route("/", not_built, include_in_schema=False)
    return app


async def not_built() -> HTMLResponse:
    """A page with the command that builds the studio's page."""
    return HTMLResponse(NOT_BUILT_PAGE, status_code=503)


def respond(status: int, sentence: str) -> JSONResponse:
    """A Problem as a response."""
    # 503: the queue is full, and jobs take about a second
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse(Problem(detail=sentence).model_dump(), status_code=status, headers=headers)


async def on_invalid(request: Request, error: Exception) -> Response:
    """A request that does not fit the schema: the first error, as one sentence."""
    assert isinstance(error, RequestValidationError)
    # one sentence is enough, and the first error often causes the others
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    # the message of pydantic has the limit, but not the length of the text
    if first["type"] == "string_too_long":
        length, limit = len(first["input"]), first["ctx"]["max_length"]
        return respond(422, f"{field} has {length:,} characters; at most {limit:,} are allowed. Shorten it.")
    return respond(422, f"{field}: {first['msg']}.")


async def on_refused(request: Request, error: Exception) -> Response:
    return respond(422, str(error))


async def on_missing(request: Request, error: Exception) -> Response:
    return respond(404, str(error))


async def on_busy(request: Request, error: Exception) -> Response:
    return respond(503, str(error))


async def on_gone(request: Request, error: Exception) -> Response:
    # a client that has disconnected does not receive it, one that cancelled its job does
    return respond(GONE, str(error))


async def on_http_error(request: Request, error: Exception) -> Response:
    """An error of FastAPI or Starlette."""
    assert isinstance(error, HTTPException)
    # the path comes from the request, and may have any length
    return respond(error.status_code, f"{request.method} {request.url.path[:200]}: {error.detail}.")


# chosen by the nearest class: other ValueErrors are not answered, because they are defects of the server
HANDLERS: dict[type[Exception], Any] = {
    RequestValidationError: on_invalid,
    HTTPException: on_http_error,
    MissingError: on_missing,
    RefusedError: on_refused,
    BusyError: on_busy,
    GoneError: on_gone,
}
