"""Lines of standard input, and warnings on standard error."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

MAX_QUOTED = 5
MAX_WARNINGS = 5
"""Texts with unknown tokens that have a warning each; the others are counted in one sentence."""


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


@dataclass
class UnknownTokens:
    """Warnings of texts with parts outside a vocabulary: one each for the first texts, then a summary of the others."""

    folder: Path
    num_texts: int = 0
    # the first ones of texts without a warning of their own
    others: list[str] = field(default_factory=list)

    def add(self, name: str, unknown: Sequence[str], *, is_all: bool = False) -> None:
        """Warn of the unknown parts of a text, such as `line 3`; `is_all` if no other part is left."""
        if not unknown:
            return
        self.num_texts += 1
        if self.num_texts > MAX_WARNINGS:
            # one more than are quoted, so that the summary shows that there are more
            new = [word for word in dict.fromkeys(unknown) if word not in self.others]
            self.others += new[: MAX_QUOTED + 1 - len(self.others)]
        elif is_all:
            warn(f"{name} has no word of the vocabulary of {self.folder}: all are read as <unk>.")
        else:
            warn(f"{name} has {quoted(unknown)}, not in the vocabulary of {self.folder}: read as <unk>.")

    def close(self) -> None:
        """Summarise the texts that had no warning of their own."""
        count = self.num_texts - MAX_WARNINGS
        if count > 0:
            warn(
                f"{count:,} more {'texts have' if count > 1 else 'text has'} {quoted(self.others)}, not in the "
                f"vocabulary of {self.folder}."
            )


def read_lines(stream: Iterable[bytes]) -> Iterator[str]:
    """Lines of UTF-8 without their line ends."""
    for number, line in enumerate(stream, start=1):
        try:
            # editors on Windows begin a file with a byte order mark
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"line {number} of the input is not UTF-8: byte {error.start + 1} is 0x{line[error.start]:02x}. "
                f"Save it as UTF-8."
            ) from None
        if "\0" in text:
            raise ValueError(f"line {number} of the input has a zero byte: it is UTF-16 or not text. Save it as UTF-8.")
        yield text
