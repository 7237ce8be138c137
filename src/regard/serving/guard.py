"""Requests are accepted from this machine's own page alone: host, token, rate and size of the body are checked.

A page of some other site that the user has open must not get answers: its requests carry another Host (DNS rebinding)
or no token, and no CORS header ever lets it read a response.
"""

import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from regard._utils import make_folder, user_data_folder

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 1 << 20
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
    """A body that is too large, found while it is read."""

    def __init__(self) -> None:
        super().__init__(413, f"the body has over {MOST_BODY:,} bytes. Send less")


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: App, *, token: str, hosts: Iterable[str]) -> None:
        # the port may be another one: a tunnel from elsewhere has its own
        names = [re.sub(r":\d+$", "", host) for host in hosts]
        self.app = TrustedHostMiddleware(app, allowed_hosts=names, www_redirect=False)
        self.token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on."""
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
        await self.app(scope, bounded(receive), with_headers(send, scope["path"]))

    def refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Status and sentence, or None where all is well."""
        if path.startswith("/api/") or path == "/api":
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self.token):
                return 401, "the token is missing or another one. Open the address that `regard studio` printed."
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return 400, f"the content-length {length[:20].decode('latin-1')!r} is no number. Leave it to your client."
        if int(length) > MOST_BODY:
            return 413, f"the body has {int(length):,} bytes, and {MOST_BODY:,} may be sent. Send less."
        return None


def bounded(receive: Receive) -> Receive:
    """The same body, unless it turns out to be too large."""
    seen = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BODY:
            raise BodyError
        return message

    return counted


def with_headers(send: Send, path: str) -> Send:
    """Every answer says what a browser may do with it."""
    asset = path.startswith("/assets/")
    keep = {"cache-control": "public, max-age=31536000, immutable" if asset else "no-store"}

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            made = [(name.encode(), value.encode()) for name, value in (HEADERS | keep).items()]
            message = {**message, "headers": [*message.get("headers", []), *made]}
        await send(message)

    return sent


async def refuse(send: Send, status: int, sentence: str) -> None:
    """An answer of our own."""
    body = json.dumps({"detail": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    sent = with_headers(send, "")
    await sent({"type": "http.response.start", "status": status, "headers": headers})
    await sent({"type": "http.response.body", "body": body})


def is_private(status: os.stat_result) -> bool:
    """A plain file that nobody else may read or write."""
    is_own = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    return stat.S_ISREG(status.st_mode) and status.st_size < 1000 and is_own


def own_token() -> str:
    """Random, and the same after a restart, so that an open page keeps working; readable by the user alone."""
    path = user_data_folder() / "studio-token"
    with suppress(OSError, UnicodeDecodeError):
        if is_private(path.lstat()):
            token = path.read_text(encoding="ascii").strip()
            if 32 <= len(token) <= 100 and token.isalnum():
                return token
    token = secrets.token_hex(24)
    with suppress(OSError, ValueError):
        make_folder(user_data_folder())
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(token)
    return token
