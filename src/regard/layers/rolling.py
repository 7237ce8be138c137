"""A tape of so many cells, however much was read: each new cell pushes out the oldest.

What is kept has one shape, so a text may be read piece by piece for ever. Keys are not kept: they are made anew from
the hidden states, with the weights of the day.

Shapes: B rows, S cells, L positions, H hidden size.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels import linear
from regard.layers.steps import Steps
from regard.layers.tape import Tape, TapeCell, TapeLoop


@dataclass(frozen=True, kw_only=True)
class RollingTape:
    """The last S cells as [h; c], which of them were written, and the last summary h~."""

    cells: Float[Tensor, "B S both"]
    real: Bool[Tensor, "B S"]
    summary: Float[Tensor, "B H"]


@dataclass(frozen=True, kw_only=True)
class Rolled:
    """The hidden state of every cell that was written, and the tape after the last."""

    hidden: Float[Tensor, "B L H"]
    tape: RollingTape


def start_rolling(cell: TapeCell, *, num_rows: int, span: int) -> RollingTape:
    """Room for so many cells, and none written."""
    summary = cell.input_proj.weight.new_zeros(num_rows, cell.hidden_size)
    cells = summary.new_zeros(num_rows, span, 2 * cell.hidden_size)
    return RollingTape(cells=cells, real=cells.new_zeros(num_rows, span, dtype=torch.bool), summary=summary)


def roll(cell: TapeCell, inputs: Float[Tensor, "B L input"], rolling: RollingTape) -> Rolled:
    """Read a text, looking back at the last S cells before every word."""
    length = inputs.shape[1]
    if not length:
        return Rolled(hidden=rolling.cells[:, :0, : cell.hidden_size], tape=rolling)
    keys = cell.look.prepare(rolling.cells[..., : cell.hidden_size])
    tape = Tape(keys=keys, cells=rolling.cells, summary=rolling.summary, real=rolling.real)
    real = torch.cat([rolling.real, rolling.real.new_ones(len(inputs), length)], dim=1)[:, length:]
    if cell.may_fuse():
        loop = TapeLoop(cell, Steps.whole(*inputs.shape[:2]), tape)
        for projected in linear(loop.steps.pack(inputs), cell.input_proj.weight).split(loop.steps.sizes):
            loop(projected)
        written, summary = torch.stack(loop.cells, dim=1), loop.summaries[-1]
    else:
        written, summary = step_by_step(cell, inputs, tape)
    cells = torch.cat([rolling.cells, written.to(rolling.cells.dtype)], dim=1)[:, length:]
    after = RollingTape(cells=cells, real=real, summary=summary.to(rolling.summary.dtype))
    return Rolled(hidden=written[..., : cell.hidden_size], tape=after)


def step_by_step(
    cell: TapeCell, inputs: Float[Tensor, "B L input"], tape: Tape
) -> tuple[Float[Tensor, "B L both"], Float[Tensor, "B H"]]:
    """Every cell that is written, and the last summary: as plain as the formula, and heard by a trace."""
    span, written = tape.cells.shape[1], []
    for projected in cell.project(inputs).unbind(dim=1):
        tape = cell(projected, tape).recent(span)
        written.append(tape.cells[:, -1])
    return torch.stack(written, dim=1), tape.summary
