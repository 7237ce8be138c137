"""The command `regard`: one file a command."""

from regard.cli.main import main

__all__ = [
    "main",
]
