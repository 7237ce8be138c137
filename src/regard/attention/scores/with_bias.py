"""A score plus a bias, as position schemes inside the heads and float masks need."""

from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import Lowered, LoweredSquare, LoweredSum, Score
from regard.kernels.gaussian import multiply_out


@dataclass(frozen=True, eq=False)
class Biased:
    """score(q, k) + bias, where the bias broadcasts to the scores."""

    score: Score
    bias: Float[Tensor, "..."]

    def select_queries(self, indices: Int[Tensor, " selected"]) -> "Biased":
        """The score of these queries alone."""
        # such a bias is equal for all queries
        if self.bias.ndim < 2 or self.bias.shape[-2] == 1:
            return self
        return replace(self, bias=self.bias[..., indices, :])

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K prepared"]:
        """Keys as the inner score prepares them."""
        return self.score.prepare(keys)

    def __call__(
        self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K prepared"]
    ) -> Float[Tensor, "... Q K"]:
        """The inner scores plus the bias."""
        return self.score(queries, keys) + self.bias

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K prepared"]) -> Lowered | str:
        """The inner lowering plus the bias, unless that is a sum through tanh."""
        lowered = self.score.lower(queries, keys)
        if isinstance(lowered, LoweredSquare):
            lowered = multiply_out(lowered)
        if isinstance(lowered, str):
            return lowered
        if isinstance(lowered, LoweredSum):
            return f"{type(self.score).__name__} is a sum through tanh, whose kernels do not support a bias"
        return replace(lowered, bias=self.bias if lowered.bias is None else lowered.bias + self.bias)
