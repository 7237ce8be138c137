"""Fingerprints of data: a SHA-256 over the texts of all examples, in their order.

The same examples give the same fingerprint on every machine and with every vocabulary. One that is added, removed,
changed or moved gives another.
"""

from collections.abc import Iterable
from hashlib import sha256

from regard.data.text.pairs import Pair
from regard.data.text.sentences import Sentence


def fingerprint(examples: str | Iterable[Pair | Sentence]) -> str:
    """The SHA-256 of a text, or of pairs or labelled sentences."""
    digest = sha256()
    if isinstance(examples, str):
        digest.update(examples.encode())
        return digest.hexdigest()
    for example in examples:
        sides = (example.label, example.text) if isinstance(example, Sentence) else (example.source, example.target)
        first, second = (side.encode() for side in sides)
        # with its length, so that a character cannot move from one side to the other unnoticed
        digest.update(b"%d %d " % (len(first), len(second)) + first + second)
    return digest.hexdigest()
