"""Types that all messages of the API share.

Indices count tokens from 0 everywhere; only the page merges tokens to characters and hides special tokens.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from regard.contracts import Title

# characters of an input
MAX_TEXT = 4000
# of one response; the page requests further parts
MAX_KEYS, MAX_DIMENSIONS = 128, 64


def check_unicode(text: str) -> str:
    """Refuse unpaired surrogates, which cannot be encoded."""
    # a JSON string may contain them as escapes
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("the text contains an unpaired surrogate. Send whole characters.")
    return text


# bounded, because errors quote names
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_unicode)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT), AfterValidator(check_unicode)]
Position = Annotated[int, Field(ge=0, le=100_000)]
Head = Annotated[int, Field(ge=-1, le=100_000, description="-1 is the mean of all heads")]
Quantity = Literal["query", "key", "value", "score", "allowed", "weight", "product", "context"]


class Message(BaseModel):
    """A message of the API; unknown keys are refused."""

    # forbid: a misspelt key is an error instead of a default; frozen: messages are cached
    model_config = ConfigDict(extra="forbid", frozen=True)


class LocalizedText(Message):
    """A text in both languages."""

    en: str
    zh: str

    @classmethod
    def of(cls, title: Title) -> "LocalizedText":
        """A title of a contract as a message."""
        return cls(en=title.en, zh=title.zh)


class Problem(Message):
    """An error as a sentence that says what to do."""

    detail: str
