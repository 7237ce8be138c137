"""What all messages between the studio's server and its page are made of.

Indices count raw tokens from 0 everywhere; the page alone merges tokens to characters and hides marks.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

LONGEST_TEXT = 4000
MOST_KEYS, MOST_DIMENSIONS = 128, 64


def check_unicode(text: str) -> str:
    """Half of a surrogate pair is no character, and nothing could read it."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("the text holds half of a surrogate pair. Send whole characters.")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_unicode)]
Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT), AfterValidator(check_unicode)]
Place = Annotated[int, Field(ge=0, le=100_000)]
Head = Annotated[int, Field(ge=-1, le=100_000, description="-1 is the mean of all heads")]
Quantity = Literal["query", "key", "value", "score", "allowed", "weight", "product", "context"]
SideName = Literal["source", "target", "read"]
Kind = Literal["translation", "language", "sentences", "example"]


class Message(BaseModel):
    """Strict: an unknown key is a mistake of the client's."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Said(Message):
    """A text in both languages."""

    en: str
    zh: str


class Problem(Message):
    """What went wrong, as a sentence with the way out."""

    detail: str
