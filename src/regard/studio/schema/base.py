"""What all messages between the studio's server and its page are made of.

Indices count tokens from 0 everywhere; the page alone merges tokens to characters and hides marks.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

MAX_TEXT = 4000
MAX_KEYS, MAX_DIMENSIONS = 128, 64


def check_unicode(text: str) -> str:
    """Half of a surrogate pair is no character, and cannot be encoded."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("the text holds half of a surrogate pair. Send whole characters.")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_unicode)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT), AfterValidator(check_unicode)]
Position = Annotated[int, Field(ge=0, le=100_000)]
Head = Annotated[int, Field(ge=-1, le=100_000, description="-1 is the mean of all heads")]
Quantity = Literal["query", "key", "value", "score", "allowed", "weight", "product", "context"]


class Message(BaseModel):
    """Strict: an unknown key is the client's mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LocalizedText(Message):
    """A text in both languages."""

    en: str
    zh: str


class Problem(Message):
    """What went wrong, as a sentence with the way out."""

    detail: str
