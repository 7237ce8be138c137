"""What a position scheme may do inside the heads: turn what is compared, add to the scores, add to the context."""

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
        self, weights: Float[Tensor, "*B Q K"], places: tuple[Int[Tensor, " Q"], Int[Tensor, " K"]]
    ) -> Float[Tensor, "*B Q size"]:
        """What is added to the context, if the scheme `reads_weights`; places are those of queries and keys."""
        raise TypeError(f"{type(self).__name__} adds nothing to the context")

    reads_weights: bool = False
