"""The token of open pages."""

import os
import secrets
from contextlib import suppress

from regard.contracts import make_folder
from regard.recipes.home import home


def own_token() -> str:
    """Random, and the same after a restart, so that an open page goes on; readable by the user alone."""
    path = home() / "studio-token"
    with suppress(OSError, UnicodeDecodeError):
        token = path.read_text(encoding="ascii").strip()
        if len(token) >= 32 and token.isalnum():
            return token
    token = secrets.token_hex(24)
    with suppress(OSError, ValueError):
        make_folder(home())
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(token)
    return token
