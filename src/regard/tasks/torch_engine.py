"""The decoding engine of a model in torch: batches of sources, searched by `regard.decoding`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.contracts import Hypothesis, LengthLimit, Search, Source
from regard.decoding import decode_all
from regard.fused import fuse

TOKENS_PER_BATCH = 4096


@dataclass(frozen=True, kw_only=True)
class TorchEngine:
    """Decodes with the model's fused implementation, or with `fused=False` with its own code.

    `stack` makes a batch of some sources. `tokens_per_batch` limits the source tokens times the hypotheses of a batch.
    """

    model: Any
    stack: Callable[[list[Any]], Source]
    fused: bool = True
    tokens_per_batch: int = TOKENS_PER_BATCH

    def decode(
        self,
        sources: Sequence[Any],
        search: Search,
        limit: LengthLimit,
        *,
        return_weights: bool = False,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses for each source, best first."""
        # a beam repeats every source `size` times; other searches have no size
        num_hypotheses = getattr(search, "size", 1)
        return decode_all(
            self.decoder,
            sources,
            stack=self.stack,
            search=search,
            limit=limit,
            tokens_per_batch=max(self.tokens_per_batch // num_hypotheses, 1),
            return_weights=return_weights,
            numbers=numbers,
        )

    @property
    def decoder(self) -> Any:
        """The model, or its fused implementation."""
        return fuse(self.model) if self.fused else self.model
