"""What every search does with the rows of a batch: when to ask after them, when to leave some out."""

import math

import torch
from jaxtyping import Shaped
from torch import Tensor


def steps_between_looks(device: torch.device) -> int:
    """How many steps go by before the host asks what was said: a GPU works ahead of the host, and asking halts it."""
    return 1 if device.type == "cpu" else 4


def leaving_pays(num_closed: int, num_rows: int) -> bool:
    """Whether the steps saved by leaving closed rows out are worth copying the state of the others."""
    return num_closed * 4 >= num_rows


class Steps:
    """One tensor a step, a row for each source that is still in the batch."""

    def __init__(self) -> None:
        self.parts: list[tuple[list[int], list[Tensor]]] = []

    def add(self, live: list[int], values: Shaped[Tensor, "n ..."]) -> None:
        """The values of one step; `live` are the sources that they belong to, in this order."""
        if not self.parts or self.parts[-1][0] is not live:
            self.parts.append((live, []))
        self.parts[-1][1].append(values)

    def of_each(self) -> dict[int, Shaped[Tensor, "T ..."]]:
        """All steps of each source, on the host."""
        pieces: dict[int, list[Tensor]] = {}
        for live, steps in self.parts:
            block = torch.stack(steps, dim=1).cpu()
            for source, piece in zip(live, block, strict=True):
                pieces.setdefault(source, []).append(piece)
        return {source: torch.cat(piece) for source, piece in pieces.items()}


def own(alignment: Tensor) -> Tensor:
    """A copy that may be used like any other tensor, outside inference mode too."""
    with torch.inference_mode(False):
        return alignment.clone()


def check_number(log_prob: float, number: int, *, what: str = "source") -> None:
    """Refuse an answer of a model that no longer gives numbers."""
    if math.isnan(log_prob):
        raise ValueError(
            f"the model gives NaN for {what} {number}: its parameters are not finite, or overflow in this precision. "
            f"Load an earlier checkpoint, or decode in float32."
        )
