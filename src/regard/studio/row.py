"""One query of one head at one site, and everything that was compared and read for it.

Shapes: K keys.
"""

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.attention.alignments import Softmax
from regard.studio.comparison import Comparison, compare
from regard.studio.errors import MissingError
from regard.studio.kept import Kept
from regard.studio.places import aligned
from regard.studio.sites import of_row


@dataclass(frozen=True)
class Row:
    """One query of one head at one site."""

    kept: Kept
    path: str
    head: int
    query: int

    @cached_property
    def place(self) -> tuple[AttentionMap, int]:
        """The read that this query was part of, with a key for every token, and the query's number in it."""
        number, left = self.found
        return aligned(self.kept.site_reads(self.path)[number], self.kept.first_keys(self.path)[number]), left

    @cached_property
    def found(self) -> tuple[int, int]:
        """The number of the read that this query was part of, and its own in it."""
        left = self.query
        for number, read in enumerate(self.kept.site_reads(self.path)):
            if left < read.weights.shape[-2]:
                return number, left
            left -= read.weights.shape[-2]
        count = self.query - left
        raise MissingError(f"{self.path} was asked {count} queries, counted from 0; there is no query {self.query}.")

    @cached_property
    def comparison(self) -> Comparison:
        """What is compared."""
        return compare(self.place[0])

    def take(self, field: str) -> Tensor:
        """This head's part of a tensor of the read."""
        return self.of_head(of_row(getattr(self.place[0], field)))

    def of_head(self, tensor: Tensor) -> Tensor:
        """This head's part of a tensor with heads in front."""
        if self.head >= tensor.shape[0]:
            raise MissingError(
                f"{self.path} has {tensor.shape[0]} heads, counted from 0; there is no head {self.head}."
            )
        return tensor[self.head].cpu()

    def line(self, field: str) -> Float[Tensor, " size"]:
        """This query's line of scores, weights or context."""
        return self.take(field)[self.place[1]]

    @cached_property
    def asked(self) -> Float[Tensor, " size"]:
        """The query as it is compared."""
        return self.of_head(self.comparison.queries)[self.place[1]]

    @cached_property
    def keys(self) -> Float[Tensor, "K size"]:
        """The keys as they are compared."""
        return self.of_head(self.comparison.keys)

    @cached_property
    def allowed(self) -> Bool[Tensor, " K"] | None:
        """Which keys may be read; None where all may."""
        read, query = self.place
        if read.allowed is None:
            return None
        every = of_row(read.allowed.broadcast_to(read.weights.shape))
        return self.of_head(every)[query]

    @property
    def is_softmax(self) -> bool:
        """Whether the weights are a masked softmax."""
        return type(self.place[0].align) is Softmax

    @property
    def is_sum(self) -> bool:
        """Whether the context is the weighted sum and nothing else, as it is unless positions add to it."""
        return (self.line("weights") @ self.take("values")).allclose(self.line("context"), rtol=1e-4, atol=1e-5)

    def address(self, quantity: str, *places: int | str) -> str:
        """Where a number stands."""
        one_head = self.kept.shelved.sites[self.path].heads == 1
        which = "" if one_head else f" head {self.head}"
        return f"{self.path}{which} {quantity}[{','.join(map(str, places))}]"
