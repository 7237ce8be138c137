"""`regard.show`: a trace, an inspection or weights as a picture.

From whatever was handed to `show` to panels: which reads, which row of the batch, which heads, which tokens.

Shapes: H heads, Q queries, K keys.

`regard.show`: look at where a model looked.

    with regard.trace(model) as maps:
        model(inputs)
    regard.show(maps, "encoder.0.attention", tokens=words)

In a terminal it prints, in a notebook it draws, and with a file it writes a figure (.png, .svg, .pdf) or one page that
needs nothing else (.html).
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from rich.console import Console
from torch import Tensor

from regard._utils import check_free, nearest, write_atomic
from regard.contracts import Attended, AttentionMap, Trace
from regard.display.figure import figure_bytes, require_matplotlib
from regard.display.html import Page
from regard.display.picture import Panel, Picture, visible
from regard.display.terminal import TerminalPicture

Maps = Trace | AttentionMap | Sequence[AttentionMap] | Attended | Tensor
Tokens = Sequence[str] | None


def choose_weights(maps: Maps, path: str | None) -> dict[str, Float[Tensor, "... Q K"]]:
    """Module path -> weights; the path is '' where none is known."""
    if isinstance(maps, Trace):
        return {name: joined(maps[name], name) for name in choose_paths(maps, path)}
    if path is not None:
        raise ValueError(f"path is {path!r}, but only a trace has paths and maps is a {type(maps).__name__}.")
    if isinstance(maps, Attended):
        if maps.weights is None:
            raise ValueError("this read has no weights: ask for them with return_weights=True, or trace the model.")
        maps = maps.weights
    if isinstance(maps, Tensor):
        return {"": checked(maps)}
    reads = (maps,) if isinstance(maps, AttentionMap) else tuple(maps)
    if not reads or not all(isinstance(read, AttentionMap) for read in reads):
        raise ValueError(
            f"maps is {type(maps).__name__}, expected what regard.trace(model) gives, one of its maps, or weights of "
            f"shape (.., Q, K)."
        )
    return {"": joined(reads, "")}


def choose_paths(maps: Trace, path: str | None) -> list[str]:
    """The path itself, or all that lie below it; without one, every path."""
    if not maps:
        raise ValueError(
            "the trace is empty: no attention of regard ran. Call the model inside `with trace(model) as maps:`; "
            "torch's own attention is not heard, regard.interop.MultiheadAttention in its place is."
        )
    chosen = [name for name in maps if path is None or name == path or name.startswith(f"{path}.")]
    if not chosen:
        near = nearest(str(path), maps)
        raise ValueError(f"no attention was traced at {path!r}; the nearest of {len(maps)} is {near!r}.")
    return chosen


def checked(weights: Tensor) -> Float[Tensor, "... Q K"]:
    """Weights that can be drawn."""
    if weights.ndim < 2 or 0 in weights.shape:
        raise ValueError(f"weights have shape {tuple(weights.shape)}, expected (.., Q, K) with nothing of size 0.")
    return weights.detach().to("cpu", torch.float32)


def joined(reads: Sequence[AttentionMap], path: str) -> Float[Tensor, "... Q K"]:
    """One read as it is; a decoder's reads of one query each, one below the other.

    A cache grows from step to step: keys that a step had not seen yet have weight 0 there.
    """
    weights = [checked(read.weights) for read in reads]
    if len(weights) == 1:
        return weights[0]
    steps = all(later.shape[-2] == 1 for later in weights[1:])
    if not steps or len({tuple(read.shape[:-2]) for read in weights}) > 1:
        shapes = ", ".join(str(tuple(read.shape)) for read in weights[:4])
        raise ValueError(
            f"there are {len(reads)} reads at {path!r} (shapes {shapes}{', ..' * (len(reads) > 4)}) that are not the "
            f"steps of one decoding. Show one of them: show(maps[{path!r}][0])."
        )
    most = max(read.shape[-1] for read in weights)
    return torch.cat([F.pad(read, (0, most - read.shape[-1])) for read in weights], dim=-2)


def choose_row(weights: Float[Tensor, "... Q K"], row: int) -> Float[Tensor, "H Q K"]:
    """The heads of one row of the batch. Of three dimensions the first is the batch, of four the second the heads."""
    if weights.ndim == 2:
        return weights[None]
    rows = weights[:, None] if weights.ndim == 3 else weights.flatten(0, -4)
    if not -rows.shape[0] <= row < rows.shape[0]:
        raise ValueError(f"row is {row}, but weights of shape {tuple(weights.shape)} have {rows.shape[0]} rows.")
    return rows[row]


def choose_heads(weights: Float[Tensor, "H Q K"], heads: str | Sequence[int]) -> Iterable[tuple[str, Tensor]]:
    """Each head's weights with its name, or their mean."""
    count = weights.shape[0]
    if heads == "mean":
        return [(f"mean of {count} heads" if count > 1 else "", weights.mean(dim=0))]
    if isinstance(heads, str) and heads != "each":
        raise ValueError(f"heads is {heads!r}, expected 'each', 'mean' or numbers such as [0, 3].")
    numbers = range(count) if isinstance(heads, str) else heads
    for number in numbers:
        if not 0 <= number < count:
            raise ValueError(f"heads has {number}, but there are {count} heads, counted from 0.")
    return [(f"head {number}" if count > 1 else "", weights[number]) for number in numbers]


def choose_tokens(tokens: Tokens, count: int, what: str, path: str) -> tuple[str, ...]:
    """One label for each query or key: the tokens, or their numbers."""
    if tokens is None:
        return tuple(map(str, range(count)))
    if len(tokens) != count:
        where = f" at {path!r}" if path else ""
        raise ValueError(
            f"{len(tokens)} tokens for {count} {what}{where}. Give one token each (padding too); query_tokens and "
            f"key_tokens label the two sides apart, and a path chooses one attention of a trace."
        )
    return tuple(visible(str(token)) for token in tokens)


def choose_panels(
    maps: Maps, path: str | None, *, row: int, heads: str | Sequence[int], query_tokens: Tokens, key_tokens: Tokens
) -> tuple[Panel, ...]:
    """Every panel that was asked for, in the order of the trace and of the heads."""
    panels = []
    for name, weights in choose_weights(maps, path).items():
        rows = choose_row(weights, row)
        queries = choose_tokens(query_tokens, rows.shape[-2], "queries", name)
        keys = choose_tokens(key_tokens, rows.shape[-1], "keys", name)
        for head, chosen in choose_heads(rows, heads):
            panels.append(Panel(path=name, head=head, weights=chosen, query_tokens=queries, key_tokens=keys))
    if not panels:
        raise ValueError("heads is empty: name at least one head, or leave it out to see each.")
    return tuple(panels)


FIGURES = (".png", ".svg", ".pdf")


def show(
    maps: Maps,
    path: str | None = None,
    *,
    tokens: Sequence[str] | None = None,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    row: int = 0,
    heads: str | Sequence[int] = "each",
    axes: tuple[str, str] = ("queries", "keys"),
    file: str | Path | None = None,
    overwrite: bool = False,
) -> Page | None:
    """Draw attention weights: a trace, one of its maps, or a tensor (Q, K), (B, Q, K) or (B, H, Q, K).

    `path` chooses a module of a trace, or all below it. `tokens` label queries and keys alike; `query_tokens` and
    `key_tokens` label them apart. `row` is the row of the batch; `heads` is 'each', 'mean' or numbers; `axes` says what
    the rows are called, and the columns. A decoder's steps are put one below the other. Only a notebook gets something
    back: the page that it then shows.
    """
    target = None if file is None else checked_file(Path(file), overwrite=overwrite)
    panels = choose_panels(
        maps,
        path,
        row=row,
        heads=heads,
        query_tokens=tokens if query_tokens is None else query_tokens,
        key_tokens=tokens if key_tokens is None else key_tokens,
    )
    picture = Picture.of(panels, axes)
    if target is not None:
        suffix = target.suffix.lower()
        page = suffix == ".html"
        content = Page(picture).html().encode() if page else figure_bytes(picture, suffix.removeprefix("."))
        write_atomic(target, content, overwrite=overwrite)
        return None
    if in_notebook():
        return Page(picture)
    Console().print(TerminalPicture(picture))
    return None


def checked_file(file: Path, *, overwrite: bool) -> Path:
    """A file that can be written, known before anything is drawn."""
    suffix = file.suffix.lower()
    if suffix not in (*FIGURES, ".html"):
        raise ValueError(
            f"file is {str(file)!r} and ends in {suffix or 'nothing'}, expected {', '.join(FIGURES)} or .html."
        )
    check_free(file, overwrite=overwrite)
    if suffix in FIGURES:
        require_matplotlib()
    return file


def in_notebook() -> bool:
    """Whether a Jupyter kernel is running this; IPython in a terminal has a shell but no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
