"""What a test-time training layer learns: small models whose weights are its state.

    bare:    f(x) = W x
    normed:  f(x) = x + LN(W x + b)

Sun et al. 2024, section 2.7. https://arxiv.org/abs/2407.04620
Each is a linear map z = W x with something around it. Learning needs no more of it than the loss's derivative by z,
since that by W is its product with x.

Shapes: B batch, H heads, T tokens, d size of a head, i size of what the linear map reads.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


@runtime_checkable
class InnerModel(Protocol):
    """f, whose weights are the state: what its linear map reads, what becomes of the map's result, and how to learn."""

    num_inputs: int

    def inputs(self, given: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T i"]:
        """What the linear map reads."""
        ...

    def output(self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """f, from what it was given and the linear map's result."""
        ...

    def gradient(
        self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], wanted: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """The derivative of ||f - wanted||^2 by the linear map's result."""
        ...


class BareLinear(nn.Module):
    """f(x) = W x."""

    def __init__(self, *, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.num_inputs = head_size

    def inputs(self, given: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """As it is."""
        return given

    def output(self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """As it is."""
        return linear

    def gradient(
        self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], wanted: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """Twice the error."""
        return 2 * (linear - wanted)


class NormedLinear(nn.Module):
    """f(x) = x + LN(W x + b), the paper's (section 2.7); b is W's last row, which reads a 1."""

    def __init__(self, *, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.num_inputs = head_size + 1
        self.shape = (num_heads, 1, head_size)
        # vectors, as those of any norm: weight decay is for matrices
        self.gain = nn.Parameter(torch.ones(num_heads * head_size))
        self.shift = nn.Parameter(torch.zeros(num_heads * head_size))

    def inputs(self, given: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T i"]:
        """A 1 beside it."""
        return F.pad(given, (0, 1), value=1.0)

    def output(self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """Normalise and add."""
        return given + self.gain.view(self.shape) * standardise(linear)[0] + self.shift.view(self.shape)

    def gradient(
        self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], wanted: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """Back through the norm."""
        normal, scale = standardise(linear)
        gain, shift = self.gain.view(self.shape), self.shift.view(self.shape)
        slope = 2 * (given + gain * normal + shift - wanted) * gain
        along = (slope * normal).mean(dim=-1, keepdim=True)
        return (slope - slope.mean(dim=-1, keepdim=True) - normal * along) * scale


def standardise(
    inputs: Float[Tensor, "B H T d"], epsilon: float = 1e-5
) -> tuple[Float[Tensor, "B H T d"], Float[Tensor, "B H T 1"]]:
    """Mean 0 and variance 1, and the scale that made it so."""
    centred = inputs - inputs.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + epsilon)
    return centred * scale, scale
