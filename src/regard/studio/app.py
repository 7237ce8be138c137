"""The application: routes, errors as sentences, the page's own files, and the guard around it all."""

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

from regard.contracts import VERSION
from regard.studio.errors import BusyError, GoneError, MissingError, RefusedError
from regard.studio.guard import Guard
from regard.studio.routes import looks, pages
from regard.studio.schema import Problem
from regard.studio.studio import Studio

GONE = 499
"""As nginx calls it: whoever asked has gone."""
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description}
    for status, description in (
        (400, "not understood"), (401, "no token"), (404, "not there"), (413, "too large"),
        (422, "refused, with the reason"), (503, "busy"),
    )
}  # fmt: skip
STATIC = Path(str(files("regard.studio").joinpath("static")))
UNBUILT = (
    "<!doctype html><meta charset=utf-8><title>regard studio</title><p>The page is not built. "
    "Did you run <code>make</code>? The API works: <code>GET /api/state</code>."
)


def is_built() -> bool:
    """Whether the page is there, which a build makes of web/."""
    return (STATIC / "index.html").is_file()


def make_app(studio: Studio, *, token: str, hosts: Iterable[str]) -> FastAPI:
    """The studio as an ASGI application that answers to these hosts, to whoever has the token."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.close()

    app = FastAPI(
        title="regard studio",
        version=VERSION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=ERRORS,
    )
    app.state.studio = studio
    app.include_router(pages.router)
    app.include_router(looks.router)
    for kind, handler in ANSWERS.items():
        app.add_exception_handler(kind, handler)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    app.add_middleware(Guard, token=token, hosts=hosts)
    if is_built():
        app.mount("/", StaticFiles(directory=STATIC, html=True), name="page")
    else:
        app.add_api_route("/", unbuilt, include_in_schema=False)
    return app


async def unbuilt() -> HTMLResponse:
    """Instead of the page."""
    return HTMLResponse(UNBUILT, status_code=503)


def answer(status: int, sentence: str) -> JSONResponse:
    """A problem as the schema has it."""
    waits = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse(Problem(detail=sentence).model_dump(), status_code=status, headers=waits)


async def say_invalid(request: Request, error: Exception) -> Response:
    """What does not fit the schema, in one sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "string_too_long":
        given, most = len(first["input"]), first["ctx"]["max_length"]
        return answer(422, f"{place} has {given:,} characters, and {most:,} can be read. Shorten it.")
    return answer(422, f"{place}: {first['msg']}.")


async def say_refused(request: Request, error: Exception) -> Response:
    """A value that cannot be served."""
    return answer(422, str(error))


async def say_missing(request: Request, error: Exception) -> Response:
    """Something that is not there."""
    return answer(404, str(error))


async def say_busy(request: Request, error: Exception) -> Response:
    """Come again."""
    return answer(503, str(error))


async def say_nothing(request: Request, error: Exception) -> Response:
    """Nobody hears it."""
    return Response(status_code=GONE)


async def say_http(request: Request, error: Exception) -> Response:
    """What the framework refuses."""
    assert isinstance(error, HTTPException)
    return answer(error.status_code, f"{request.method} {request.url.path[:200]}: {error.detail}.")


ANSWERS: dict[type[Exception], Any] = {
    RequestValidationError: say_invalid,
    HTTPException: say_http,
    MissingError: say_missing,
    RefusedError: say_refused,
    BusyError: say_busy,
    GoneError: say_nothing,
}
