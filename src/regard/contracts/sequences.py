"""A batch of token sequences, padded on the right."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Sequences:
    """Token ids and the true length of each row; what lies past a length is padding and means nothing."""

    ids: Int[Tensor, "B L"]
    lengths: Int[Tensor, " B"]

    @property
    def mask(self) -> Bool[Tensor, "B L"]:
        """True where a token is real."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]
