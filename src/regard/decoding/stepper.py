"""Who reads a text's tokens one after another: the model's own step, or something faster that the model offers.

A model that has a method `stepper(state, most=..)` is asked for one that goes on from the state for at most so many
tokens; it may answer None. A stepper owns what it works on, so it is closed when the text is.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import LanguageModel, select_rows


@runtime_checkable
class Stepper(Protocol):
    """Reads a token of every row and says what comes next."""

    can_leave: bool
    """Whether rows may be left out."""

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """Logits behind the tokens, good until the next call."""
        ...

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Only these rows go on."""
        ...

    def close(self) -> None:
        """No more tokens."""
        ...


class PlainStepper:
    """The model's own steps."""

    can_leave = True

    def __init__(self, model: LanguageModel, state: Any) -> None:
        self.model, self.state = model, state

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """One step."""
        done = self.model.step(tokens, self.state)
        self.state = done.state
        return done.logits

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """The state of these rows."""
        self.state = select_rows(self.state, rows)

    def close(self) -> None:
        """Nothing to give back."""


def stepper_of(model: LanguageModel, state: Any, *, most: int) -> Stepper:
    """The fastest there is."""
    offer = getattr(model, "stepper", None)
    offered: Stepper | None = None if offer is None else offer(state, most=most)
    return PlainStepper(model, state) if offered is None else offered
