"""What a Gaussian kernel is asked: softmax(-1/2 |width (queries - keys)|^2) over what the mask allows, @ values."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.contracts import Lowered, LoweredSquare
from regard.kernels.dot.read import DotRead
from regard.kernels.dot.reference import join_groups, part_groups
from regard.kernels.gaussian.features import feature_refusals, gaussian_features
from regard.kernels.gaussian.multiplied import multiply_out
from regard.kernels.read import Read


@dataclass(frozen=True, kw_only=True)
class GaussianRead(Read):
    """One read on a GPU; there is one width, or one for each dimension."""

    width: Float[Tensor, "..."]

    def as_dot(self) -> DotRead:
        """The same read as a dot kernel knows it; heads that share a key head are more queries of that head."""
        size = self.group_size
        queries = self.queries if size == 1 else join_groups(self.queries, size)
        if not any(feature_refusals(queries, self.keys, self.width)):
            queries, keys = gaussian_features(queries, self.keys, self.width)
            lowered = Lowered(queries=queries, keys=keys)
        else:
            found = multiply_out(LoweredSquare(queries=queries, keys=self.keys, width=self.width))
            assert isinstance(found, Lowered), "where nobody looks at the numbers nothing is refused"
            lowered = found
        return DotRead(
            queries=lowered.queries if size == 1 else part_groups(lowered.queries, size),
            keys=lowered.keys,
            values=self.values,
            scale=lowered.scale,
            key_bias=lowered.key_bias,
            mask=self.mask,
            first_query=self.first_query,
            first_key=self.first_key,
            dropout=self.dropout,
            group_size=size,
        )
