"""Lines of standard input, and warnings on standard error."""

import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

MAX_QUOTED = 5


def read_input() -> Iterator[str]:
    """The lines of standard input; at a terminal a hint says how to end them."""
    if sys.stdin.isatty():
        Console(stderr=True).print("One text per line; Ctrl-D ends the input.", style="dim", highlight=False)
    # bytes: the locale has no effect, and an error can name its line
    return read_lines(sys.stdin.buffer)


def warn(sentence: str) -> None:
    """Print a warning to standard error."""
    Console(stderr=True, soft_wrap=True).print(f"Warning: {sentence}", style="yellow", markup=False, highlight=False)


def quoted(words: Sequence[str]) -> str:
    """The first few words in quotes."""
    return ", ".join(map(repr, words[:MAX_QUOTED])) + (" .." if len(words) > MAX_QUOTED else "")


def read_lines(stream: Iterable[bytes]) -> Iterator[str]:
    """Lines of UTF-8 without their line ends."""
    for number, line in enumerate(stream, start=1):
        try:
            # editors on Windows begin a file with a byte order mark
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"line {number} of the input is not UTF-8: byte {error.start + 1} is 0x{line[error.start]:02x}. "
                f"Save it as UTF-8."
            ) from None
