"""Lines as they come in, and warnings beside what goes out."""

import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

MOST_NAMED = 5


def read_input() -> Iterator[str]:
    """The lines of standard input; at a terminal it is said that they are waited for."""
    if sys.stdin.isatty():
        Console(stderr=True).print("One text a line; Ctrl-D ends.", style="dim", highlight=False)
    return read_lines(sys.stdin.buffer)


def warn(sentence: str) -> None:
    """A sentence on standard error."""
    Console(stderr=True, soft_wrap=True).print(f"Warning: {sentence}", style="yellow", markup=False, highlight=False)


def named(words: Sequence[str]) -> str:
    """Some words as they stand; of many the first."""
    return ", ".join(map(repr, words[:MOST_NAMED])) + (" .." if len(words) > MOST_NAMED else "")


def read_lines(stream: Iterable[bytes]) -> Iterator[str]:
    """Lines of UTF-8, without their ends."""
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"line {number} of the input is not UTF-8: byte {error.start + 1} is 0x{line[error.start]:02x}. "
                f"Save it as UTF-8."
            ) from None
