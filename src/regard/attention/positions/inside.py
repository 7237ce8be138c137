"""What a position scheme may do inside the heads; each scheme does one of the three."""

from jaxtyping import Float, Int
from torch import Tensor, nn


class InsideHeads(nn.Module):
    """A scheme that changes nothing, for schemes to say where they differ."""

    def turn(self, vectors: Float[Tensor, "*B L size"], positions: Int[Tensor, " L"]) -> Float[Tensor, "*B L size"]:
        """Queries and keys as they are compared."""
        return vectors

    def bias(
        self, queries: Float[Tensor, "*B Q size"], query_positions: Int[Tensor, " Q"], key_positions: Int[Tensor, " K"]
    ) -> Float[Tensor, "..."] | None:
        """What is added to the scores."""
        return None

    def extra(
        self, weights: Float[Tensor, "*B Q K"], query_positions: Int[Tensor, " Q"], key_positions: Int[Tensor, " K"]
    ) -> Float[Tensor, "*B Q size"]:
        """What is added to the context, if the scheme `reads_weights`."""
        raise TypeError(f"{type(self).__name__} adds nothing to the context")

    reads_weights: bool = False
