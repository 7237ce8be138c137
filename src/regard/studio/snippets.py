"""Code that makes a number again, to be pasted anywhere that torch is.

Inputs are written out digit by digit. What takes more than its inputs to make (an alignment with weights of its own,
positions that add to the context) is made again by the checkpoint itself.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.studio.comparison import Comparison
from regard.studio.kept import Kept
from regard.studio.row import Row

WIDTH = 100


def written(tensor: Tensor) -> str:
    """A vector as Python writes one, every digit of single precision kept."""
    if tensor.dtype == torch.bool:
        return wrap([str(one) for one in tensor.tolist()])
    infinite = {float("inf"): "float('inf')", float("-inf"): "float('-inf')"}
    numbers = tensor.to(torch.float32).numpy()
    return wrap([infinite.get(float(one), str(one)) for one in numbers])


def wrap(words: Sequence[str]) -> str:
    """A list in brackets, broken into lines."""
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) + 2 > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line}, {word}" if line else word
    lines.append(line)
    return f"[{lines[0]}]" if len(lines) == 1 else "[\n    " + ",\n    ".join(lines) + ",\n]"


def code(address: str, inputs: dict[str, Tensor], result: str) -> str:
    """A whole program: the address, the inputs, and the number printed."""
    given = "".join(f"{name} = torch.tensor({written(tensor)})\n" for name, tensor in inputs.items())
    return f'import torch\n\n# {address}\n{given}print(f"{{({result}).item():.8g}}")\n'


def literal(address: str, value: Tensor) -> str:
    """A number that is made of no others."""
    return code(address, {"x": value.reshape(1)}, "x[0]")


def score(address: str, found: Comparison, query: Tensor, key: Tensor, bias: Tensor | None) -> str | None:
    """A pair compared; None where the comparison is not known."""
    inputs = {"q": query, "k": key}
    if found.form == "dot":
        result = "q @ k" if found.scale == 1 else f"{found.scale!r} * (q @ k)"
    elif found.form == "sum" and found.energy is not None:
        inputs["v"] = found.energy.cpu()
        result = "v @ torch.tanh(q + k)"
    elif found.form == "square" and found.width is not None:
        inputs["w"] = found.width.cpu()
        result = "-0.5 * ((w * (q - k)) ** 2).sum()"
    else:
        return None
    if bias is not None:
        inputs["b"] = bias.reshape(1)
        result += " + b[0]"
    return code(address, inputs, result)


def weight(address: str, scores: Tensor, allowed: Tensor | None, key: int) -> str:
    """A masked softmax; a query that may read nothing reads nothing."""
    inputs = {"scores": scores}
    result = f"scores.softmax(-1)[{key}]"
    if allowed is not None and not bool(allowed.all()):
        inputs["allowed"] = allowed
        result = f"scores.masked_fill(~allowed, -torch.inf).softmax(-1).nan_to_num(0.0)[{key}]"
    return code(address, inputs, result)


def product(address: str, weight: Tensor, value: Tensor) -> str:
    """A weight times a value."""
    return code(address, {"weight": weight.reshape(1), "value": value.reshape(1)}, "weight[0] * value[0]")


def context(address: str, weights: Tensor, column: Tensor) -> str:
    """A weighted sum."""
    return code(address, {"weights": weights, "values": column}, "weights @ values")


def handed(row: Row, quantity: str, address: str, places: tuple[int, int]) -> str | None:
    """A number that the read was handed, from the checkpoint; None for an example, which has none.

    A key that is no longer kept has none either.
    """
    number, _ = row.found
    axis = {"key": 0, "value": 0, "allowed": 1}.get(quantity)
    is_gone = axis is not None and places[axis] < row.kept.first_keys(row.path)[number]
    if row.kept.shelved.folder is None or is_gone:
        return None
    if quantity == "allowed":
        weights = "read.weights.shape"
        is_free = row.kept.site_reads(row.path)[number].allowed is None
        every = f"torch.ones({weights})" if is_free else f"read.allowed.broadcast_to({weights}).float()"
        return from_checkpoint(row, every, address, places, key_axis=axis)
    made = f"read.score.lower(read.queries, read.keys).{'queries' if quantity == 'query' else 'keys'}"
    plain = {"query": "read.queries", "key": "read.keys", "value": "read.values"}[quantity]
    known = row.comparison.form != "unknown" and quantity != "value"
    return from_checkpoint(row, made if known else plain, address, places, key_axis=axis)


def from_checkpoint(
    row: Row, tensor: str, address: str, places: tuple[int, int], *, key_axis: int | None = None
) -> str:
    """The system itself, looked at while it reads and writes the same; `tensor` is an expression of the `read`.

    Of the two places the one at `key_axis` counts tokens, for which the read may have keys before the first.
    """
    number, _ = row.found
    first = row.kept.first_keys(row.path)[number]
    shown = [place - first if axis == key_axis else place for axis, place in enumerate(places)]
    head = f"{row.head}, " if row.place[0].weights.ndim > 3 else ""
    return (
        f"import regard\nimport torch\nfrom regard.contracts import Sequences\n\n# {address}\n"
        f"model = regard.load({str(row.kept.shelved.folder)!r}, device='cpu').model\n"
        f"{inputs_of(row.kept)}"
        f"with torch.inference_mode(), regard.trace(model) as maps:\n    {CALLS[row.kept.message.kind]}\n"
        f"    read = maps[{row.path!r}][{number}]\n"
        f'    print(f"{{{tensor}[0, {head}{shown[0]}, {shown[1]}].item():.8g}}")\n'
    )


CALLS = {
    "translation": "model(source, target)",
    "language": "model.read(tokens, model.start(1))",
    "sentences": "model(sentence)",
}


def inputs_of(kept: Kept) -> str:
    """What the system is given, in the words of its call."""
    ids = kept.written.source
    if kept.message.kind == "language":
        return f"tokens = torch.tensor([{ids}])\n"
    if kept.message.kind == "sentences":
        return f"sentence = Sequences.of([{ids}])\n"
    return f"source = Sequences.of([{ids}])\ntarget = Sequences.of([{kept.written.read}])\n"


def softmax_of(kept: Kept, address: str, place: int, ids: Sequence[int]) -> str:
    """How probable a language model finds these tokens behind one place of the text, from the checkpoint."""
    return (
        f"import regard\nimport torch\n\n# {address}\n"
        f"model = regard.load({str(kept.shelved.folder)!r}, device='cpu').model\n"
        f"{inputs_of(kept)}"
        f"with torch.inference_mode():\n    logits = model(tokens)[0, {place}].double()\n"
        f"for token in {list(ids)}:\n"
        f'    print(f"{{token}} {{logits[token]:.8g}} {{logits.softmax(-1)[token]:.8g}}")\n'
    )
