"""`regard.show`: draw the attention weights of a trace, an attention map or a tensor.

    with regard.trace(model) as maps:
        model(inputs)
    regard.show(maps, "encoder.0.attention", tokens=words)

It prints in a terminal, draws in a notebook, and with `file` writes a figure (.png, .svg, .pdf) or a self-contained
page (.html).

Shapes: H heads, Q queries, K keys.
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
    """Module path -> weights; without a trace the path is ''."""
    if isinstance(maps, Trace):
        return {name: join_steps(maps[name], name) for name in choose_paths(maps, path)}
    if path is not None:
        raise ValueError(f"path is {path!r}, but only a trace has paths and maps is a {type(maps).__name__}.")
    if isinstance(maps, Attended):
        if maps.weights is None:
            raise ValueError("this attention has no weights. Call it with return_weights=True, or trace the model.")
        maps = maps.weights
    if isinstance(maps, Tensor):
        return {"": check_weights(maps)}
    steps = (maps,) if isinstance(maps, AttentionMap) else tuple(maps)
    if not steps or not all(isinstance(step, AttentionMap) for step in steps):
        raise ValueError(
            f"maps is {type(maps).__name__}, expected a trace of regard.trace(model), one of its maps, or weights of "
            f"shape (.., Q, K)."
        )
    return {"": join_steps(steps, "")}


def choose_paths(maps: Trace, path: str | None) -> list[str]:
    """The path itself and all below it; without one, every path."""
    if not maps:
        raise ValueError(
            "the trace is empty: no attention of regard ran. Call the model inside `with trace(model) as maps:`; "
            "torch's own attention is not recorded, regard.interop.MultiheadAttention is."
        )
    # a dot after the path: "encoder.1" is not the parent of "encoder.10"
    paths = [name for name in maps if path is None or name == path or name.startswith(f"{path}.")]
    if not paths:
        near = nearest(str(path), maps)
        raise ValueError(f"no attention was traced at {path!r}; the nearest of {len(maps)} is {near!r}.")
    return paths


def check_weights(weights: Tensor) -> Float[Tensor, "... Q K"]:
    """The weights on the CPU in single precision; ValueError if they cannot be drawn."""
    if weights.ndim < 2 or 0 in weights.shape:
        raise ValueError(f"weights have shape {tuple(weights.shape)}, expected (.., Q, K) with nothing of size 0.")
    # detached: a picture must not hold the graph of the model in memory
    return weights.detach().to("cpu", torch.float32)


def join_steps(maps: Sequence[AttentionMap], path: str) -> Float[Tensor, "... Q K"]:
    """The weights of one map, or of the steps of a decoder, one query each, joined along the queries."""
    weights = [check_weights(attention_map.weights) for attention_map in maps]
    if len(weights) == 1:
        return weights[0]
    # the first map may have several queries: a prompt, after which every step has one
    are_steps = all(step.shape[-2] == 1 for step in weights[1:])
    if not are_steps or len({tuple(step.shape[:-2]) for step in weights}) > 1:
        shapes = ", ".join(str(tuple(step.shape)) for step in weights[:4])
        raise ValueError(
            f"there are {len(maps)} maps at {path!r} (shapes {shapes}{', ..' * (len(maps) > 4)}) that are not the "
            f"steps of one decoding. Show one of them: show(maps[{path!r}][0])."
        )
    # the cache grows from step to step; keys that a step did not have yet get weight 0
    num_keys = max(step.shape[-1] for step in weights)
    return torch.cat([F.pad(step, (0, num_keys - step.shape[-1])) for step in weights], dim=-2)


def choose_batch_element(weights: Float[Tensor, "... Q K"], batch_index: int) -> Float[Tensor, "H Q K"]:
    """The heads of one batch element of weights (Q, K), (B, Q, K) or (B, H, Q, K)."""
    if weights.ndim == 2:
        return weights[None]
    # a batch without heads gets one head; with more dimensions all but the last three are the batch
    batch = weights[:, None] if weights.ndim == 3 else weights.flatten(0, -4)
    if not -batch.shape[0] <= batch_index < batch.shape[0]:
        raise ValueError(
            f"batch_index is {batch_index}, but weights of shape {tuple(weights.shape)} have {batch.shape[0]} batch "
            f"elements."
        )
    return batch[batch_index]


def choose_heads(weights: Float[Tensor, "H Q K"], heads: str | Sequence[int]) -> Iterable[tuple[str, Tensor]]:
    """Each head with its name, or their mean."""
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
            f"key_tokens label queries and keys separately, and a path chooses one attention of a trace."
        )
    return tuple(visible(str(token)) for token in tokens)


def choose_panels(
    maps: Maps,
    path: str | None,
    *,
    batch_index: int,
    heads: str | Sequence[int],
    query_tokens: Tokens,
    key_tokens: Tokens,
) -> tuple[Panel, ...]:
    """One panel per module and head, in the order of the trace."""
    panels = []
    for name, weights in choose_weights(maps, path).items():
        all_heads = choose_batch_element(weights, batch_index)
        queries = choose_tokens(query_tokens, all_heads.shape[-2], "queries", name)
        keys = choose_tokens(key_tokens, all_heads.shape[-1], "keys", name)
        for head, head_weights in choose_heads(all_heads, heads):
            panels.append(Panel(path=name, head=head, weights=head_weights, query_tokens=queries, key_tokens=keys))
    if not panels:
        raise ValueError("heads is empty: name at least one head, or leave it out to draw each.")
    return tuple(panels)


FIGURES = (".png", ".svg", ".pdf")


def show(
    maps: Maps,
    path: str | None = None,
    *,
    tokens: Sequence[str] | None = None,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    batch_index: int = 0,
    heads: str | Sequence[int] = "each",
    axes: tuple[str, str] = ("queries", "keys"),
    title: str = "",
    file: str | Path | None = None,
    overwrite: bool = False,
) -> Page | None:
    """Draw attention weights: a trace, one of its maps, or a tensor (Q, K), (B, Q, K) or (B, H, Q, K).

    `path` chooses a module of a trace and all below it. `tokens` label both queries and keys; `query_tokens` and
    `key_tokens` label them separately. `heads` is 'each', 'mean' or indices; `axes` names the rows and the columns, and
    `title` is a line above them, such as a sentence with its translation. The steps of a decoder are joined along the
    queries. In a notebook the page is returned, elsewhere None.
    """
    target = None if file is None else checked_file(Path(file), overwrite=overwrite)
    panels = choose_panels(
        maps,
        path,
        batch_index=batch_index,
        heads=heads,
        query_tokens=tokens if query_tokens is None else query_tokens,
        key_tokens=tokens if key_tokens is None else key_tokens,
    )
    picture = Picture.of(panels, axes, title)
    if target is not None:
        suffix = target.suffix.lower()
        page = suffix == ".html"
        # the whole content first: a failed drawing leaves no file
        content = Page(picture).html().encode() if page else figure_bytes(picture, suffix.removeprefix("."))
        write_atomic(target, content, overwrite=overwrite)
        return None
    if in_notebook():
        return Page(picture)
    Console().print(TerminalPicture(picture))
    return None


def checked_file(file: Path, *, overwrite: bool) -> Path:
    """The file, if it can be written: checked before anything is drawn."""
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
    """True in a Jupyter kernel; IPython in a terminal has a shell but no kernel."""
    # not imported here: if IPython runs, it is among the loaded modules
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
