"""The steps of a generation: those that the model offers as a step function, or its own `step`."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import LanguageModel, StepFunction, select_rows


class ModelSteps:
    """The model's `step` with its state."""

    can_drop_rows = True

    def __init__(self, model: LanguageModel, state: Any) -> None:
        self.model, self.state = model, state

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """One step."""
        step = self.model.step(tokens, self.state)
        self.state = step.state
        return step.logits

    def select_rows(self, rows: Int[Tensor, " selected"]) -> None:
        """The state of these batch elements."""
        self.state = select_rows(self.state, rows)

    def close(self) -> None:
        """There are no buffers."""


def step_function_of(model: LanguageModel, state: Any, *, limit: int) -> StepFunction:
    """The model's own step function from this state, if it offers one; otherwise its steps."""
    offer = getattr(model, "step_function", None)
    offered: StepFunction | None = None if offer is None else offer(state, limit)
    return ModelSteps(model, state) if offered is None else offered
