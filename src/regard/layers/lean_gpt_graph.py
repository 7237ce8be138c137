"""A step of generation as one CUDA graph: a small product on a large GPU waits for its launch, a graph launches once.

    copy the tokens into the board -> replay: embed, all layers, logits; write the keys; count one more

A graph is of one shape and of fixed addresses, so keys and values lie in room taken ahead, and a mask by their number
says how many of them count. That number lives on the device: nothing is asked of the host between two tokens.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.layers.cache import GrowingCache
from regard.layers.lean import normed
from regard.layers.lean_gpt import LeanGPT, See, through

MULTIPLE = 64
"""Room is rounded up to a multiple of this: texts of similar lengths share a graph, and kernels like even sizes."""
WARM_UP = 3
"""Steps before one is captured."""
MOST_BOARDS = 2
"""That are kept between texts."""

Renew = Callable[[Tensor, Tensor], tuple[Tensor, Sequence[GrowingCache], Tensor]]
"""Tokens [B] and the ids of a full context [B, C] -> logits behind the tokens, the next caches, the next ids."""


class Board:
    """The tensors of one step: it reads `tokens`, and writes logits, keys, values and ids, all where they are."""

    def __init__(self, lean: LeanGPT, num_rows: int, room: int) -> None:
        self.lean = lean
        size, num_heads = lean.words.shape[1], lean.layers[0].num_heads
        whole: dict[str, Any] = {"device": lean.words.device, "dtype": torch.int64}
        held = (len(lean.layers), num_rows, num_heads, room, size // num_heads)
        # born in inference mode they could be written nowhere else
        with torch.inference_mode(False):
            self.keys, self.values = (torch.zeros(held, device=lean.words.device, dtype=lean.words.dtype) for _ in "kv")
            self.tokens, self.ids = torch.zeros(num_rows, **whole), torch.zeros(num_rows, room, **whole)
            self.length, self.columns = torch.zeros(1, **whole), torch.arange(room, device=lean.words.device)
        self.graph: Any = None
        self.logits: Tensor | None = None
        if lean.words.is_cuda:
            self.capture()

    @property
    def room(self) -> int:
        """How many positions fit."""
        return self.ids.shape[1]

    def compute(self) -> Float[Tensor, "B vocab"]:
        """One step; what it writes lies behind what was read so far."""
        lean, dtype = self.lean, self.keys.dtype
        bias = torch.zeros(self.room, dtype=dtype, device=self.columns.device)
        bias = bias.masked_fill(self.columns > self.length, float("-inf")).view(1, 1, 1, -1)
        self.ids.index_copy_(1, self.length, self.tokens[:, None])
        states = lean.words.index_select(0, self.tokens) + lean.places.index_select(0, self.length)
        for number, layer in enumerate(lean.layers):
            states = through(layer, states, self.seeing(number, bias))
        logits = lean.readout(normed(lean.norm, states))
        self.length.add_(1)
        return logits

    def seeing(self, number: int, bias: Float[Tensor, "1 1 1 C"]) -> See:
        """How the layer of this number looks back."""
        held_keys, held_values = self.keys[number], self.values[number]

        def see(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            held_keys.index_copy_(2, self.length, keys)
            held_values.index_copy_(2, self.length, values)
            # the scale is in the queries' weights
            return F.scaled_dot_product_attention(queries, held_keys, held_values, attn_mask=bias, scale=1.0)

        return see

    def capture(self) -> None:
        """Record a step; positions that this fills are written again."""
        stream = torch.cuda.Stream(self.tokens.device)
        stream.wait_stream(torch.cuda.current_stream(self.tokens.device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.length.zero_()
                self.compute()
            self.length.zero_()
        torch.cuda.current_stream(self.tokens.device).wait_stream(stream)
        torch.cuda.synchronize(self.tokens.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self.logits = self.compute()
        self.graph = graph

    def load(self, caches: Sequence[GrowingCache], ids: Int[Tensor, "B K"]) -> None:
        """Go on from what these hold."""
        length = ids.shape[1]
        self.ids[:, :length] = ids
        self.length.fill_(length)
        for number, cache in enumerate(caches):
            if cache.keys is not None and cache.values is not None:
                self.keys[number, :, :, :length] = cache.keys
                self.values[number, :, :, :length] = cache.values

    def step(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """Logits behind one more token; the next step may write over them."""
        self.tokens.copy_(tokens)
        if self.graph is None:
            return self.compute()
        self.graph.replay()
        assert self.logits is not None
        return self.logits


class BoardStepper:
    """Reads token after token on a board that is its own until it is closed."""

    def __init__(
        self,
        lean: LeanGPT,
        caches: Sequence[GrowingCache],
        ids: Int[Tensor, "B K"],
        *,
        most: int,
        renew: Renew,
    ) -> None:
        self.lean, self.renew, self.filled = lean, renew, ids.shape[1]
        self.context = lean.places.shape[0]
        room = -(-min(self.filled + most, self.context) // MULTIPLE) * MULTIPLE
        self.shape = (ids.shape[0], room)
        kept = lean.boards.pop(self.shape, None)
        self.board: Board = Board(lean, *self.shape) if kept is None else kept
        self.board.load(caches, ids)

    can_leave = False
    """Fewer rows would need a board of their own, and save next to nothing."""

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """Read one token of each row; the next call may write over the logits."""
        if self.filled == self.context:
            logits, caches, ids = self.renew(tokens, self.board.ids[:, : self.context])
            self.board.load(caches, ids)
            self.filled = ids.shape[1]
            return logits
        self.filled += 1
        return self.board.step(tokens)

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """All rows stay."""

    def close(self) -> None:
        """Give the board back."""
        if len(self.lean.boards) < MOST_BOARDS:
            self.lean.boards[self.shape] = self.board
