"""Lines as they come in."""

from collections.abc import Iterable, Iterator


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
