"""LSTMN cell: an LSTM whose one memory became a tape, which it attends to before every step.

    a_i  = v . tanh(W_h h_i + W_x x_t + W_g h~_{t-1}),   i < t
    s    = softmax(a),   h~_t = sum_i s_i h_i,   c~_t = sum_i s_i c_i
    i, f, o = sigmoid(W [h~_t; x_t]),   c^ = tanh(W_c [h~_t; x_t])
    c_t  = f c~_t + i c^,   h_t = o tanh(c_t)

Cheng, Dong and Lapata 2016, section 3. https://arxiv.org/abs/1601.06733
Before the first word the tape is empty, and h~ and c~ are zeros. What depends on the input alone is one product, so
whoever knows a whole text projects it at once.

Shapes: B batch, L positions, t cells written so far, H hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Attention
from regard.contracts import Attended, LoweredSum, Memory
from regard.kernels import linear
from regard.kernels.additive import additive_scores
from regard.kernels.recurrent import TAPE_ORDER, RepeatedLinear, WindowTape, WrittenTape, lstm_update
from regard.layers.steps import Steps, going
from regard.layers.unroll import looks_plainly, may_fuse


@dataclass(frozen=True, kw_only=True)
class Tape:
    """Every hidden state and memory so far, side by side as [h; c]; their keys W_h h; and the last summary h~.

    `real` says which cells were written, where not all of them were (rolling.py).
    """

    keys: Float[Tensor, "B t H"]
    cells: Float[Tensor, "B t both"]
    summary: Float[Tensor, "B H"]
    real: Bool[Tensor, "B t"] | None = None

    @property
    def hidden(self) -> Float[Tensor, "B t H"]:
        """The hidden tape."""
        return self.cells[..., : self.summary.shape[-1]]

    @property
    def last(self) -> Float[Tensor, "B H"]:
        """The hidden state written last; zeros while there is none."""
        return self.hidden[:, -1] if self.cells.shape[1] else torch.zeros_like(self.summary)

    def recent(self, span: int) -> "Tape":
        """The last cells alone, so many."""
        real = None if self.real is None else self.real[:, -span:]
        return Tape(keys=self.keys[:, -span:], cells=self.cells[:, -span:], summary=self.summary, real=real)


class TapeScore(nn.Module):
    """score(q, h) = v . tanh(W_h h + q): additive, with queries that were projected by whoever asks."""

    def __init__(self, *, hidden_size: int) -> None:
        super().__init__()
        self.key_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.energy = nn.Parameter(torch.empty(hidden_size))
        bound = hidden_size**-0.5
        nn.init.uniform_(self.energy, -bound, bound)

    def prepare(self, keys: Float[Tensor, "*B K H"]) -> Float[Tensor, "*B K H"]:
        """W_h h, once for every cell."""
        return self.key_proj(keys)

    def forward(self, queries: Float[Tensor, "*#B Q H"], keys: Float[Tensor, "*#B K H"]) -> Float[Tensor, "*B Q K"]:
        """Score every query against every prepared key."""
        return additive_scores(queries, keys, self.energy)

    def lower(self, queries: Float[Tensor, "... Q H"], keys: Float[Tensor, "... K H"]) -> LoweredSum:
        """Kernels for additive attention take it as it is."""
        return LoweredSum(queries=queries, keys=keys, energy=self.energy)


class TapeAttention(nn.Module):
    """Looks at a tape, its own or another's, with what comes in and what it saw last."""

    def __init__(self, *, hidden_size: int) -> None:
        super().__init__()
        self.summary_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.attention = Attention(TapeScore(hidden_size=hidden_size))

    def prepare(self, hidden: Float[Tensor, "*B K H"]) -> Float[Tensor, "*B K H"]:
        """Keys of these hidden states."""
        return self.attention.score.prepare(hidden)

    def forward(
        self,
        projected: Float[Tensor, "B H"],
        summary: Float[Tensor, "B H"],
        memory: Memory,
        *,
        return_weights: bool = False,
    ) -> Attended:
        """One query, W_x x_t + W_g h~_{t-1}, with W_x x_t projected ahead."""
        query = projected + self.summary_proj(summary)
        return self.attention(query.unsqueeze(1), memory, return_weights=return_weights)


class TapeCell(nn.Module):
    """One layer. The tape is an argument and a result."""

    def __init__(self, *, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.input_proj = nn.Linear(input_size, 5 * hidden_size, bias=False)
        self.look = TapeAttention(hidden_size=hidden_size)
        self.gates = nn.Linear(hidden_size, 4 * hidden_size)

    def start(self, states: Float[Tensor, "B ..."]) -> Tape:
        """An empty tape, for as many rows as these states have."""
        rows, size = states.shape[0], self.hidden_size
        return Tape(
            keys=states.new_zeros(rows, 0, size),
            cells=states.new_zeros(rows, 0, 2 * size),
            summary=states.new_zeros(rows, size),
        )

    def project(self, inputs: Float[Tensor, "*B input"]) -> Float[Tensor, "*B five"]:
        """The inputs' share of the query and of the four gates, for any number of positions at once."""
        return self.input_proj(inputs)

    def may_fuse(self) -> bool:
        """Whether a `TapeLoop` may take this cell's weights."""
        if not looks_plainly(self.look.attention, TapeScore):
            return False
        score = cast(TapeScore, self.look.attention.score)
        return may_fuse(self, self.input_proj, self.gates, self.look.summary_proj, score.key_proj)

    def forward(
        self, projected: Float[Tensor, "B five"], tape: Tape, fused: Float[Tensor, "B H"] | None = None
    ) -> Tape:
        """Look back, then write one more cell; `fused` is added to its memory (r * alpha~ of deep fusion)."""
        query, gates = projected.split([self.hidden_size, 4 * self.hidden_size], dim=-1)
        seen = Memory(keys=tape.keys, values=tape.cells, mask=tape.real)
        read = self.look(query, tape.summary, seen).context[:, 0]
        summary, memory = read.chunk(2, dim=-1)
        taken, kept, shown, new = (gates + self.gates(summary)).chunk(4, dim=-1)
        cell = torch.sigmoid(kept) * memory + torch.sigmoid(taken) * torch.tanh(new)
        cell = cell if fused is None else cell + fused
        hidden = torch.sigmoid(shown) * torch.tanh(cell)
        written = torch.cat([hidden, cell], dim=-1)
        return Tape(
            keys=torch.cat([tape.keys, self.look.prepare(hidden).unsqueeze(1)], dim=1),
            cells=torch.cat([tape.cells, written.unsqueeze(1)], dim=1),
            summary=summary,
            real=None if tape.real is None else F.pad(tape.real, (0, 1), value=True),
        )

    def run(self, inputs: Float[Tensor, "B L input"], tape: Tape, *, lengths: Int[Tensor, " B"] | None = None) -> Tape:
        """Read a whole text; its hidden states are the last L of the tape.

        Given lengths, what is written past them may be zeros, and the summary may be that at each row's end.
        """
        if not tape.cells.shape[1] and inputs.shape[1] and self.may_fuse():
            steps = Steps.whole(*inputs.shape[:2]) if lengths is None else Steps.of(lengths, inputs.shape[1])
            loop = TapeLoop(self, steps)
            for projected in linear(steps.pack(inputs), self.input_proj.weight).split(steps.sizes):
                loop(projected)
            return loop.tape()
        for projected in self.project(inputs).unbind(dim=1):
            tape = self(projected, tape)
        return tape


class TapeLoop:
    """A cell over a whole text, step by step: the same numbers as `TapeCell`, sooner.

    The summary's products with the gates and with the next query are one; the tape lies in one buffer. Rows that have
    ended take no more steps. Given a tape that says which of its cells are real, the loop goes on from it and sees as
    many cells at every step; else it begins with an empty one and sees all.
    """

    def __init__(self, cell: TapeCell, steps: Steps, tape: Tape | None = None) -> None:
        score = cast(TapeScore, cell.look.attention.score)
        weight, sizes = cell.gates.weight, steps.sizes
        both = torch.cat([weight, cell.look.summary_proj.weight])
        bias = torch.cat([cell.gates.bias, weight.new_zeros(cell.hidden_size)])
        self.size, self.from_summary = cell.hidden_size, RepeatedLinear(both, bias, sizes=sizes)
        self.key = RepeatedLinear(score.key_proj.weight, sizes=sizes)
        energy = score.energy.to(self.key.weight.dtype)
        self.asked: Tensor | None = None
        assert tape is None or tape.real is not None or not tape.cells.shape[1], "a loop goes on from a rolling tape"
        if tape is None or tape.real is None:
            self.written = WrittenTape(energy, num_rows=sizes[0], num_cells=len(sizes), size=2 * cell.hidden_size)
        else:
            self.written = WindowTape(energy, tape.keys, tape.cells, tape.real, num_cells=len(sizes))
            self.asked = cell.look.summary_proj(tape.summary)
        self.steps = steps
        self.summaries: list[Tensor] = []
        self.keys: list[Tensor] = []
        self.cells: list[Tensor] = []

    def __call__(
        self, projected: Float[Tensor, "n five"], fused: Float[Tensor, "n H"] | None = None
    ) -> Float[Tensor, "n H"]:
        """Look back, write one more cell, and show its hidden state."""
        query, given = projected.split([self.size, 4 * self.size], dim=-1)
        query = query if self.asked is None else query + going(self.asked, len(query))
        summary, memory = self.written.read(query).chunk(2, dim=-1)
        self.summaries.append(summary)
        gates, self.asked = self.from_summary(summary).split([4 * self.size, self.size], dim=-1)
        hidden, cell = lstm_update(gates + given, memory, fused, order=TAPE_ORDER)
        self.keys.append(self.key(hidden))
        self.cells.append(torch.cat([hidden, cell], dim=-1))
        self.written.write(self.keys[-1], self.cells[-1])
        return hidden

    def tape(self) -> Tape:
        """What was written."""
        steps, after = self.steps, [*self.steps.sizes[1:], 0]
        # the shortest rows come last, and have ended first
        ends = [summary[size:] for summary, size in zip(self.summaries, after, strict=True)]
        return Tape(
            keys=steps.unpack(torch.cat(self.keys)),
            cells=steps.unpack(torch.cat(self.cells)),
            summary=steps.restore(torch.cat(ends[::-1])),
        )


class TapeStack(nn.Module):
    """Several layers, each reading the hidden states of the one below; dropout between them."""

    def __init__(self, *, input_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        cells = [TapeCell(input_size=size, hidden_size=hidden_size) for size in sizes]
        self.cells = cast("Sequence[TapeCell]", nn.ModuleList(cells))
        self.dropout = nn.Dropout(dropout)

    def start(self, states: Float[Tensor, "B ..."]) -> tuple[Tape, ...]:
        """Empty tapes, for as many rows as these states have."""
        return tuple(cell.start(states) for cell in self.cells)

    def project(self, inputs: Float[Tensor, "*B input"]) -> Float[Tensor, "*B five"]:
        """The inputs' share of the first layer, for any number of positions at once."""
        return self.cells[0].project(inputs)

    def forward(self, projected: Float[Tensor, "B five"], tapes: tuple[Tape, ...]) -> tuple[Tape, ...]:
        """Write one cell in every layer."""
        after: list[Tape] = []
        for cell, tape in zip(self.cells, tapes, strict=True):
            after.append(cell(cell.project(self.dropout(after[-1].last)) if after else projected, tape))
        return tuple(after)

    def run(self, inputs: Float[Tensor, "B L input"], *, lengths: Int[Tensor, " B"] | None = None) -> tuple[Tape, ...]:
        """Read a whole text from empty tapes, layer by layer; no cell sees a later one, so padding may follow."""
        after: list[Tape] = []
        for cell, tape in zip(self.cells, self.start(inputs), strict=True):
            after.append(cell.run(self.dropout(after[-1].hidden) if after else inputs, tape, lengths=lengths))
        return tuple(after)
