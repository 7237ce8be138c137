"""The token of open pages."""

import os
import secrets
import stat
from contextlib import suppress

from regard.contracts import make_folder
from regard.recipes.home import home


def is_private(found: os.stat_result) -> bool:
    """A plain file that nobody else may read or write."""
    mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
    return stat.S_ISREG(found.st_mode) and found.st_size < 1000 and mine


def own_token() -> str:
    """Random, and the same after a restart, so that an open page goes on; readable by the user alone."""
    path = home() / "studio-token"
    with suppress(OSError, UnicodeDecodeError):
        if is_private(path.lstat()):
            token = path.read_text(encoding="ascii").strip()
            if 32 <= len(token) <= 100 and token.isalnum():
                return token
    token = secrets.token_hex(24)
    with suppress(OSError, ValueError):
        make_folder(home())
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(token)
    return token
