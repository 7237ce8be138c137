"""A guard around an ASGI application: checks host, token and the size of the body, and sets security headers.

A page of another site in the same browser must not get responses: its requests have another Host (DNS rebinding) or no
token, and without CORS headers it cannot read a response.
"""

import hmac
import html
import json
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from regard._utils import make_folder, user_data_folder
from regard.serving.connections import HAS_TOKEN

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# 1 MiB; requests contain short texts
MAX_BODY = 1 << 20
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "style-src-attr 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class BodyError(HTTPException):
    """A body that is too large, noticed while it is received."""

    def __init__(self) -> None:
        super().__init__(413, f"the body has over {MAX_BODY:,} bytes. Send less")


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: App, *, token: str, hosts: Iterable[str]) -> None:
        # hosts are compared without their port: an SSH tunnel may use another one
        names = [re.sub(r":\d+$", "", host) for host in hosts]
        self.app = TrustedHostMiddleware(app, allowed_hosts=names, www_redirect=False)
        # bytes: compare_digest refuses text outside ASCII
        self.token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it to the application."""
        # refused: pages of other sites may open web sockets without CORS, and the API has none
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self.refusal(scope["path"], headers)
        if refusal is not None:
            await refuse(send, *refusal)
            return
        # a connection with the token is not closed in favour of another
        scope.setdefault("state", {})[HAS_TOKEN] = is_api(scope["path"])
        await self.app(scope, bounded(receive), with_headers(send, scope["path"]))

    def refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Status and sentence of a refusal, or None."""
        if is_api(path):
            # compare_digest takes the same time for every wrong token
            scheme, _, value = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(value.strip(), self.token):
                return 401, "the token is missing or wrong. Open the address that `regard studio` printed."
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return 400, f"the content-length {length[:20].decode('latin-1')!r} is not a number. Let your client set it."
        # refused before the body is received; a body without a length is counted while it arrives
        if int(length) > MAX_BODY:
            return 413, f"the body has {int(length):,} bytes, and {MAX_BODY:,} may be sent. Send less."
        return None


def is_api(path: str) -> bool:
    """True for the paths that need the token; the page itself needs none."""
    return path.startswith("/api/") or path == "/api"


def bounded(receive: Receive) -> Receive:
    """Receive with a limit: BodyError if the body is too large."""
    size = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise BodyError
        return message

    return counted


def with_headers(send: Send, path: str) -> Send:
    """Send with security headers and a cache policy."""
    is_asset = path.startswith("/assets/")
    # names of assets contain a hash of their content
    cache = {"cache-control": "public, max-age=31536000, immutable" if is_asset else "no-store"}

    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.encode(), value.encode()) for name, value in (HEADERS | cache).items()]
            message = {**message, "headers": [*message.get("headers", []), *headers]}
        await send(message)

    return send_with_headers


async def refuse(send: Send, status: int, sentence: str) -> None:
    """Send a response with a status and a sentence."""
    body = json.dumps({"detail": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    send = with_headers(send, "")
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_private(status: os.stat_result) -> bool:
    """True for a small regular file that only its owner may read or write."""
    # 0o077 are all permissions of group and others; Windows has no owner ids
    is_own = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    return stat.S_ISREG(status.st_mode) and status.st_size < 1000 and is_own


def own_token(*, new: bool = False) -> str:
    """A random token in a file of the user: the same after a restart, so that an open page keeps working.

    With `new` it is replaced, and pages with the old one are refused.
    """
    path = user_data_folder() / "studio-token"
    with suppress(OSError, UnicodeDecodeError):
        # lstat: a link could name a file of another user
        if not new and is_private(path.lstat()):
            token = path.read_text(encoding="ascii").strip()
            if 32 <= len(token) <= 100 and token.isalnum():
                return token
    token = secrets.token_hex(24)
    # a file that is not private is replaced, because others may have read it
    is_saved = write_private(path, token)
    if new and not is_saved:
        raise ValueError(f"the new token cannot be written to {path}, and the old one is still valid. Free the path.")
    # without a writable folder the token is valid for this process only
    return token


def write_private(path: Path, text: str) -> bool:
    """Replace a file in the user's folder by one that only its owner may read; False if that is not possible."""
    try:
        make_folder(path.parent)
        path.unlink(missing_ok=True)
        # O_EXCL: the call fails if the file exists, so no other process can have prepared it
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(text)
    except (OSError, ValueError):
        return False
    return True


REDIRECT = """<!doctype html>
<meta charset=utf-8><meta name=referrer content=no-referrer>
<meta http-equiv=refresh content="0; url={address}">
<title>regard studio</title><a href="{address}">regard studio</a>
"""


def write_redirect(address: str) -> Path | None:
    """A page that only the user can read and that leads to an address with a token; None if it cannot be written.

    A browser gets the file instead of the address, because its command line is readable by every user of the machine.
    """
    path = user_data_folder() / f"studio-{os.getpid()}.html"
    return path if write_private(path, REDIRECT.format(address=html.escape(address))) else None
