"""Python code that recomputes a number of an inspection.

The inputs are written out with all digits. Where the inputs are not enough (an alignment with parameters, positions
that add to the context), the code runs the checkpoint.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.contracts import NextTokenPanel
from regard.studio.computation import Comparison, QueryRow
from regard.studio.inspection_cache import CachedInspection

WIDTH = 100


def vector_code(tensor: Tensor) -> str:
    """A vector as a Python list, with all digits of single precision."""
    if tensor.dtype == torch.bool:
        return wrap([str(value) for value in tensor.tolist()])
    # str of a float32 has the shortest digits that give the same number again
    # the names of infinities are not Python
    infinite = {float("inf"): "float('inf')", float("-inf"): "float('-inf')"}
    # numpy has no bfloat16
    numbers = tensor.to(torch.float32).numpy()
    return wrap([infinite.get(float(value), str(value)) for value in numbers])


def wrap(words: Sequence[str]) -> str:
    """A Python list, wrapped to WIDTH columns."""
    lines, line = [], ""
    for word in words:
        # 2 for the comma and the space
        if line and len(line) + len(word) + 2 > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line}, {word}" if line else word
    lines.append(line)
    return f"[{lines[0]}]" if len(lines) == 1 else "[\n    " + ",\n    ".join(lines) + ",\n]"


def code(address: str, inputs: dict[str, Tensor], result: str) -> str:
    """A program that prints a result computed from inputs."""
    assignments = "".join(f"{name} = torch.tensor({vector_code(tensor)})\n" for name, tensor in inputs.items())
    # 8 digits: about the precision of float32
    return f'import torch\n\n# {address}\n{assignments}print(f"{{({result}).item():.8g}}")\n'


def literal(address: str, value: Tensor) -> str:
    """A program that prints a number itself."""
    return code(address, {"x": value.reshape(1)}, "x[0]")


def score(address: str, comparison: Comparison, query: Tensor, key: Tensor, bias: Tensor | None) -> str | None:
    """The score of a query and a key; None if the comparison is unknown."""
    inputs = {"q": query, "k": key}
    if comparison.form == "dot":
        # repr has all digits of a float
        result = "q @ k" if comparison.scale == 1 else f"{comparison.scale!r} * (q @ k)"
    elif comparison.form == "sum" and comparison.energy is not None:
        # on the CPU, where the snippet runs
        inputs["v"] = comparison.energy.cpu()
        result = "v @ torch.tanh(q + k)"
    elif comparison.form == "square" and comparison.width is not None:
        inputs["w"] = comparison.width.cpu()
        result = "-0.5 * ((w * (q - k)) ** 2).sum()"
    # the caller then runs the checkpoint instead
    else:
        return None
    if bias is not None:
        inputs["b"] = bias.reshape(1)
        result += " + b[0]"
    return code(address, inputs, result)


def weight(address: str, scores: Tensor, allowed: Tensor | None, key: int) -> str:
    """One weight of a masked softmax; a query that may attend to nothing has weights 0."""
    inputs = {"scores": scores}
    result = f"scores.softmax(-1)[{key}]"
    # without a masked key the plain softmax gives the same
    if allowed is not None and not bool(allowed.all()):
        inputs["allowed"] = allowed
        # -inf and not a large number: a masked key gets weight 0 exactly
        # a row of -inf alone is 0 / 0, and nan_to_num makes its weights 0
        result = f"scores.masked_fill(~allowed, -torch.inf).softmax(-1).nan_to_num(0.0)[{key}]"
    return code(address, inputs, result)


def product(address: str, weight: Tensor, value: Tensor) -> str:
    return code(address, {"weight": weight.reshape(1), "value": value.reshape(1)}, "weight[0] * value[0]")


def context(address: str, weights: Tensor, column: Tensor) -> str:
    return code(address, {"weights": weights, "values": column}, "weights @ values")


def recorded(row: QueryRow, quantity: str, address: str, indices: tuple[int, int]) -> str | None:
    """An input of the attention, recorded from the checkpoint.

    None for worked examples, which have no checkpoint, and for keys that a bounded memory has dropped.
    """
    # the index that counts keys: (key, dimension), and (query, key) for the mask
    key_axis = {"key": 0, "value": 0, "allowed": 1}.get(quantity)
    # the memory has dropped this key: there is no recorded number
    if key_axis is not None and indices[key_axis] < row.first_key:
        return None
    name = "attention_map"
    if quantity == "allowed":
        shape = f"{name}.weights.shape"
        is_unmasked = row.entry.maps(row.path)[row.located[0]].allowed is None
        # the mask may have fewer dimensions than the weights
        allowed = f"torch.ones({shape})" if is_unmasked else f"{name}.allowed.broadcast_to({shape}).float()"
        return from_checkpoint(row, allowed, address, indices, key_axis=key_axis)
    plain = {"query": f"{name}.queries", "key": f"{name}.keys", "value": f"{name}.values"}[quantity]
    # the page shows the vectors after the projections of the score, which only the lowering has
    lowered = f"{name}.score.lower({name}.queries, {name}.keys).{'queries' if quantity == 'query' else 'keys'}"
    is_lowered = row.comparison.form != "unknown" and quantity != "value"
    return from_checkpoint(row, lowered if is_lowered else plain, address, indices, key_axis=key_axis)


def from_checkpoint(
    row: QueryRow, tensor: str, address: str, indices: tuple[int, int], *, key_axis: int | None = None
) -> str | None:
    """A program that traces the checkpoint on the same input; None if there is no checkpoint.

    `tensor` is an expression of the `attention_map`. The index at `key_axis` counts tokens, while the recorded keys may
    begin before or after the first one.
    """
    folder, call = row.entry.model.folder, row.entry.inspection.call
    if folder is None or call is None:
        return None
    # addresses count tokens, the recorded tensor counts its own keys
    shifted = [index - row.first_key if axis == key_axis else index for axis, index in enumerate(indices)]
    # attention without heads is recorded without their dimension
    head = f"{row.head}, " if row.attention_map.weights.ndim > 3 else ""
    return (
        f"import regard\nimport torch\nfrom regard.contracts import PaddedTokens\n\n# {address}\n"
        # on the CPU, since the checkpoint may be opened on a machine without a GPU
        f"model = regard.load({str(folder)!r}, device='cpu').model\n"
        f"{call.inputs}"
        f"with torch.inference_mode(), regard.trace(model) as maps:\n    {call.call}\n"
        f"    attention_map = maps[{row.path!r}][{row.located[0]}]\n"
        f'    print(f"{{{tensor}[0, {head}{shifted[0]}, {shifted[1]}].item():.8g}}")\n'
    )


def softmax(
    entry: CachedInspection, panel: NextTokenPanel, address: str, position: int, ids: Sequence[int]
) -> str | None:
    """The probabilities of these tokens after one position, from the checkpoint; None if there is no checkpoint."""
    folder, call = entry.model.folder, entry.inspection.call
    if folder is None or call is None or panel.code is None:
        return None
    return (
        f"import regard\nimport torch\n\n# {address}\n"
        f"model = regard.load({str(folder)!r}, device='cpu').model\n"
        f"{call.inputs}"
        # float64, as in the panel
        f"with torch.inference_mode():\n    logits = {panel.code}[{position}].double()\n"
        f"for token in {list(ids)}:\n"
        f'    print(f"{{token}} {{logits[token]:.8g}} {{logits.softmax(-1)[token]:.8g}}")\n'
    )
