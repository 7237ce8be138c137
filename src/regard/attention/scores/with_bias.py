"""A score with something added: what position schemes inside the heads need."""

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from regard.contracts import Lowered, LoweredSquare, LoweredSum, Score
from regard.kernels.gaussian import multiply_out


@dataclass(frozen=True, eq=False)
class Biased:
    """score(q, k) + bias, where the bias broadcasts to the scores."""

    score: Score
    added: Float[Tensor, "..."]

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K prepared"]:
        """As the inner score does."""
        return self.score.prepare(keys)

    def __call__(
        self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K prepared"]
    ) -> Float[Tensor, "... Q K"]:
        """The inner scores and the bias."""
        return self.score(queries, keys) + self.added

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K prepared"]) -> Lowered | str:
        """The inner lowering and the bias."""
        lowered = self.score.lower(queries, keys)
        if isinstance(lowered, LoweredSquare):
            lowered = multiply_out(lowered)
        if isinstance(lowered, str):
            return lowered
        if isinstance(lowered, LoweredSum):
            return f"{type(self.score).__name__} has a tanh in it, and its kernels know no bias behind that"
        return replace(lowered, bias=self.added if lowered.bias is None else lowered.bias + self.added)
