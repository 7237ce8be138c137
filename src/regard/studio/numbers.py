"""Every number of a read: its value, its address, what it is made of, and code that makes it again."""

import torch
from torch import Tensor

from regard.attention.alignments import ALIGNMENTS
from regard.studio import snippets
from regard.studio.comparison import Comparison
from regard.studio.errors import MissingError
from regard.studio.row import Row
from regard.studio.schema import MOST_DIMENSIONS, MOST_KEYS, Computed, Input, Number, Quantity
from regard.studio.sites import name_of

SHOWN = 16
"""Numbers of a vector that an inspector lists."""
SCORE_TEX = {
    "dot": r"s_{ij} = c\, q_i \cdot k_j",
    "sum": r"s_{ij} = v \cdot \tanh(q_i + k_j)",
    "square": r"s_{ij} = -\tfrac{1}{2} \lVert w\,(q_i - k_j) \rVert^2",
    "unknown": r"s_{ij} = \mathrm{score}(q_i, k_j)",
}
SOFTMAX_TEX = r"\alpha_{ij} = \frac{e^{s_{ij}}}{\sum_{l\ \mathrm{allowed}} e^{s_{il}}}"
GIVEN_TEX = {"query": "q_{id}", "key": "k_{jd}", "value": "v_{jd}", "allowed": "m_{ij}"}
CONTEXT_TEX = r"c_i = \sum_j \alpha_{ij} v_j"


def compute(row: Row, *, first_key: int, first_dimension: int) -> Computed:
    """One query through the pipeline."""
    read = row.place[0]
    align = name_of(read.align)
    keys = slice(first_key, first_key + MOST_KEYS)
    sizes = slice(first_dimension, first_dimension + MOST_DIMENSIONS)
    allowed, values = row.allowed, row.take("values")
    return Computed(
        address=row.address("query", row.query),
        score=name_of(read.score),
        score_formula=score_tex(row.comparison),
        align=align,
        align_formula=SOFTMAX_TEX if row.is_softmax else rf"\alpha_i = \mathrm{{{align}}}(s_i)",
        query=row.asked[sizes].tolist(),
        size=max(row.asked.shape[0], row.keys.shape[1]),
        value_size=values.shape[-1],
        num_keys=row.keys.shape[0],
        first_key=first_key,
        first_dimension=first_dimension,
        keys=row.keys[keys, sizes].tolist(),
        values=values[keys, sizes].tolist(),
        scores=finite(row.line("scores")[keys]),
        allowed=None if allowed is None else allowed[keys].tolist(),
        weights=row.line("weights")[keys].tolist(),
        context=row.line("context")[sizes].tolist(),
        projected=row.comparison.projected,
    )


def finite(numbers: Tensor) -> list[float]:
    """JSON has no infinity: a score that is none is as low as a number goes."""
    return torch.nan_to_num(numbers, nan=0.0).tolist()


def score_tex(comparison: Comparison) -> str:
    """The formula, with the constant it has here."""
    tex = SCORE_TEX[comparison.form]
    if comparison.form == "dot":
        size = comparison.queries.shape[-1]
        scaled = abs(comparison.scale - size**-0.5) < 1e-9 and size > 1
        constant = (
            rf"\frac{{q_i \cdot k_j}}{{\sqrt{{{size}}}}}" if scaled else rf"{comparison.scale:.4g}\, q_i \cdot k_j"
        )
        tex = "s_{ij} = " + (r"q_i \cdot k_j" if comparison.scale == 1 else constant)
    return tex if comparison.bias is None else tex + " + b_{ij}"


def number(row: Row, quantity: Quantity, *, key: int, dimension: int) -> Number:
    """One number, whatever it is."""
    checks = {"key": (key, row.keys.shape[0]), "dimension": (dimension, sizes_of(row)[quantity])}
    for name, (place, count) in checks.items():
        needed = quantity not in ("query", "context") if name == "key" else quantity in DIMENSIONED
        if needed and place >= count:
            raise MissingError(f"there is no {name} {place}: they are {count}, counted from 0.")
    return MAKERS[quantity](row, key, dimension)


DIMENSIONED = ("query", "key", "value", "product", "context")


def sizes_of(row: Row) -> dict[str, int]:
    """How many dimensions each quantity has."""
    read = row.take("values").shape[-1]
    return {
        "query": row.asked.shape[0], "key": row.keys.shape[1], "value": read, "product": read, "context": read,
        "score": 1, "allowed": 1, "weight": 1,
    }  # fmt: skip


def make_input(name: str, address: str, numbers: Tensor) -> Input:
    """A vector, as much of it as is listed."""
    return Input(name=name, address=address, values=finite(numbers[:SHOWN].float()), count=numbers.shape[0])


def given(row: Row, quantity: Quantity, value: Tensor, address: str, places: tuple[int, int]) -> Number:
    """A number that the read was handed."""
    return Number(
        value=value.item(),
        address=address,
        formula=GIVEN_TEX[quantity],
        inputs=[],
        snippet=snippets.handed(row, quantity, address, places) or snippets.literal(address, value),
    )


def make_query(row: Row, key: int, dimension: int) -> Number:
    """One dimension of the query."""
    address = row.address("query", row.query, dimension)
    return given(row, "query", row.asked[dimension], address, (row.place[1], dimension))


def make_key(row: Row, key: int, dimension: int) -> Number:
    """One dimension of a key."""
    return given(row, "key", row.keys[key, dimension], row.address("key", key, dimension), (key, dimension))


def make_value(row: Row, key: int, dimension: int) -> Number:
    """One dimension of a value."""
    value = row.take("values")[key, dimension]
    return given(row, "value", value, row.address("value", key, dimension), (key, dimension))


def make_allowed(row: Row, key: int, dimension: int) -> Number:
    """1 where the key may be read."""
    allowed = row.allowed
    value = torch.tensor(1.0 if allowed is None else float(allowed[key]))
    return given(row, "allowed", value, row.address("allowed", row.query, key), (row.place[1], key))


def make_score(row: Row, key: int, dimension: int) -> Number:
    """How well a key answers the query."""
    address = row.address("score", row.query, key)
    found = row.comparison
    inputs = [
        make_input("q", row.address("query", row.query), row.asked),
        make_input("k", row.address("key", key), row.keys[key]),
    ]
    if found.energy is not None:
        inputs.append(make_input("v", f"{row.path} energy", found.energy.cpu()))
    if found.width is not None:
        inputs.append(make_input("w", f"{row.path} width", found.width.cpu()))
    bias = None
    if found.bias is not None:
        bias = row.of_head(found.bias)[row.place[1], key]
        inputs.append(make_input("b", row.address("bias", row.query, key), bias[None]))
    code = snippets.score(address, found, row.asked, row.keys[key], bias)
    return Number(
        value=finite(row.line("scores")[key][None])[0],
        address=address,
        formula=score_tex(found),
        inputs=inputs,
        snippet=code or snippets.from_checkpoint(row, "read.scores", address, (row.place[1], key), key_axis=1),
    )


def make_weight(row: Row, key: int, dimension: int) -> Number:
    """How much of a key is read."""
    address = row.address("weight", row.query, key)
    scores, allowed = row.line("scores"), row.allowed
    inputs = [make_input("s", row.address("score", row.query), scores)]
    if allowed is not None:
        inputs.append(make_input("allowed", row.address("allowed", row.query), allowed.float()))
    align = name_of(row.place[0].align)
    entry = ALIGNMENTS.get(align)
    code = snippets.weight(address, scores, allowed, key) if row.is_softmax else None
    return Number(
        value=row.line("weights")[key].item(),
        address=address,
        formula=SOFTMAX_TEX if row.is_softmax else rf"\text{{{entry.formula if entry else align}}}",
        inputs=inputs,
        snippet=code or snippets.from_checkpoint(row, "read.weights", address, (row.place[1], key), key_axis=1),
    )


def make_product(row: Row, key: int, dimension: int) -> Number:
    """What one key adds to the context."""
    address = row.address("product", row.query, key, dimension)
    weight, value = row.line("weights")[key], row.take("values")[key, dimension]
    return Number(
        value=(weight * value).item(),
        address=address,
        formula=r"\alpha_{ij} v_{jd}",
        inputs=[
            make_input("α", row.address("weight", row.query, key), weight[None]),
            make_input("v", row.address("value", key, dimension), value[None]),
        ],
        snippet=snippets.product(address, weight, value),
    )


def make_context(row: Row, key: int, dimension: int) -> Number:
    """What is read in the end."""
    address = row.address("context", row.query, dimension)
    weights, column = row.line("weights"), row.take("values")[:, dimension]
    code = snippets.context(address, weights, column) if row.is_sum else None
    return Number(
        value=row.line("context")[dimension].item(),
        address=address,
        formula=CONTEXT_TEX,
        inputs=[
            make_input("α", row.address("weight", row.query), weights),
            make_input("v", row.address("value", ":", dimension), column),
        ],
        snippet=code or snippets.from_checkpoint(row, "read.context", address, (row.place[1], dimension)),
    )


MAKERS = {
    "query": make_query,
    "key": make_key,
    "value": make_value,
    "score": make_score,
    "allowed": make_allowed,
    "weight": make_weight,
    "product": make_product,
    "context": make_context,
}
