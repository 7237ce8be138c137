"""Every number of an attention: its value, its address, its inputs, and code that computes it."""

import torch
from torch import Tensor

from regard.attention.alignments import ALIGNMENTS
from regard.serving import MissingError
from regard.studio import code_snippets
from regard.studio.computation import Comparison, QueryRow
from regard.studio.schema.base import MAX_DIMENSIONS, MAX_KEYS, Quantity
from regard.studio.schema.numbers import Computation, Number, NumberInput
from regard.tasks import name_of

NUM_LISTED = 16
"""Entries of an input vector that are listed."""
SCORE_TEX = {
    "dot": r"s_{ij} = c\, q_i \cdot k_j",
    "sum": r"s_{ij} = v \cdot \tanh(q_i + k_j)",
    "square": r"s_{ij} = -\tfrac{1}{2} \lVert w\,(q_i - k_j) \rVert^2",
    "unknown": r"s_{ij} = \mathrm{score}(q_i, k_j)",
}
SOFTMAX_TEX = r"\alpha_{ij} = \frac{e^{s_{ij}}}{\sum_{l\ \mathrm{allowed}} e^{s_{il}}}"
RECORDED_TEX = {"query": "q_{id}", "key": "k_{jd}", "value": "v_{jd}", "allowed": "m_{ij}"}
CONTEXT_TEX = r"c_i = \sum_j \alpha_{ij} v_j"


def compute(row: QueryRow, *, first_key: int, first_dimension: int) -> Computation:
    """All stages of attention for one query."""
    align = name_of(row.attention_map.align)
    # a window of keys and dimensions, which bounds the size of the response
    keys = slice(first_key, first_key + MAX_KEYS)
    sizes = slice(first_dimension, first_dimension + MAX_DIMENSIONS)
    allowed, values = row.allowed, row.take("values")
    return Computation(
        address=row.address("query", row.query),
        score=name_of(row.attention_map.score),
        score_formula=score_tex(row.comparison),
        align=align,
        align_formula=SOFTMAX_TEX if row.is_softmax else rf"\alpha_i = \mathrm{{{align}}}(s_i)",
        query=row.query_vector[sizes].tolist(),
        # of an unknown comparison, queries and keys may have different sizes
        size=max(row.query_vector.shape[0], row.keys.shape[1]),
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
    """A list for JSON, which has no infinity: minus infinity becomes the lowest number."""
    return torch.nan_to_num(numbers, nan=0.0).tolist()


def score_tex(comparison: Comparison) -> str:
    """The formula of a score with its scale and bias."""
    tex = SCORE_TEX[comparison.form]
    if comparison.form == "dot":
        size = comparison.queries.shape[-1]
        # 1 / sqrt(d) up to rounding; for d = 1 it is 1, which is not shown
        scaled = abs(comparison.scale - size**-0.5) < 1e-9 and size > 1
        constant = (
            rf"\frac{{q_i \cdot k_j}}{{\sqrt{{{size}}}}}" if scaled else rf"{comparison.scale:.4g}\, q_i \cdot k_j"
        )
        tex = "s_{ij} = " + (r"q_i \cdot k_j" if comparison.scale == 1 else constant)
    return tex if comparison.bias is None else tex + " + b_{ij}"


def number(row: QueryRow, quantity: Quantity, *, key: int, dimension: int) -> Number:
    """One number of a quantity."""
    # index and upper bound
    checks = {"key": (key, row.keys.shape[0]), "dimension": (dimension, sizes_of(row)[quantity])}
    for name, (index, count) in checks.items():
        # the page sends all indices; only those of the quantity are checked
        # a query and a context belong to no key
        is_used = quantity not in ("query", "context") if name == "key" else quantity in DIMENSIONED
        if is_used and index >= count:
            raise MissingError(f"there is no {name} {index}; there are {count}, counted from 0.")
    return BUILDERS[quantity](row, key, dimension)


# quantities with one number per dimension
DIMENSIONED = ("query", "key", "value", "product", "context")


def sizes_of(row: QueryRow) -> dict[str, int]:
    """The number of dimensions of each quantity."""
    value_size = row.take("values").shape[-1]
    sizes = dict.fromkeys(("value", "product", "context"), value_size) | dict.fromkeys(
        ("score", "allowed", "weight"), 1
    )
    return sizes | {"query": row.query_vector.shape[0], "key": row.keys.shape[1]}


def make_input(name: str, address: str, numbers: Tensor) -> NumberInput:
    """A vector with its first NUM_LISTED entries."""
    # float32: masks are boolean
    return NumberInput(name=name, address=address, values=finite(numbers[:NUM_LISTED].float()), count=numbers.shape[0])


def recorded(row: QueryRow, quantity: Quantity, value: Tensor, address: str, indices: tuple[int, int]) -> Number:
    """A number that is an input of the attention."""
    return Number(
        value=value.item(),
        address=address,
        formula=RECORDED_TEX[quantity],
        inputs=[],
        # the number itself where the code cannot be given
        snippet=code_snippets.recorded(row, quantity, address, indices) or code_snippets.literal(address, value),
    )


def make_query(row: QueryRow, key: int, dimension: int) -> Number:
    """One dimension of the query."""
    address = row.address("query", row.query, dimension)
    # `row.index` counts queries of the recorded map, `row.query` all queries of the site
    return recorded(row, "query", row.query_vector[dimension], address, (row.index, dimension))


def make_key(row: QueryRow, key: int, dimension: int) -> Number:
    """One dimension of a key."""
    return recorded(row, "key", row.keys[key, dimension], row.address("key", key, dimension), (key, dimension))


def make_value(row: QueryRow, key: int, dimension: int) -> Number:
    """One dimension of a value."""
    value = row.take("values")[key, dimension]
    return recorded(row, "value", value, row.address("value", key, dimension), (key, dimension))


def make_allowed(row: QueryRow, key: int, dimension: int) -> Number:
    """1 if the query may attend to the key, else 0."""
    allowed = row.allowed
    value = torch.tensor(1.0 if allowed is None else float(allowed[key]))
    return recorded(row, "allowed", value, row.address("allowed", row.query, key), (row.index, key))


def make_score(row: QueryRow, key: int, dimension: int) -> Number:
    """The score of a key for the query."""
    address = row.address("score", row.query, key)
    comparison = row.comparison
    inputs = [
        make_input("q", row.address("query", row.query), row.query_vector),
        make_input("k", row.address("key", key), row.keys[key]),
    ]
    if comparison.energy is not None:
        inputs.append(make_input("v", f"{row.path} energy", comparison.energy.cpu()))
    if comparison.width is not None:
        inputs.append(make_input("w", f"{row.path} width", comparison.width.cpu()))
    bias = None
    if comparison.bias is not None:
        # biases differ by head, query and key
        bias = row.of_head(comparison.bias)[row.index, key]
        inputs.append(make_input("b", row.address("bias", row.query, key), bias[None]))
    code = code_snippets.score(address, comparison, row.query_vector, row.keys[key], bias)
    return Number(
        # `finite` takes and gives a vector
        value=finite(row.line("scores")[key][None])[0],
        address=address,
        formula=score_tex(comparison),
        inputs=inputs,
        # the formula if the comparison is known, else the checkpoint, else the number itself
        snippet=code
        or code_snippets.from_checkpoint(row, "attention_map.scores", address, (row.index, key), key_axis=1)
        or code_snippets.literal(address, row.line("scores")[key]),
    )


def make_weight(row: QueryRow, key: int, dimension: int) -> Number:
    """The weight of a key."""
    address = row.address("weight", row.query, key)
    scores, allowed = row.line("scores"), row.allowed
    inputs = [make_input("s", row.address("score", row.query), scores)]
    if allowed is not None:
        inputs.append(make_input("allowed", row.address("allowed", row.query), allowed.float()))
    align = name_of(row.attention_map.align)
    entry = ALIGNMENTS.get(align)
    # only a masked softmax depends on nothing but scores and mask
    code = code_snippets.weight(address, scores, allowed, key) if row.is_softmax else None
    return Number(
        value=row.line("weights")[key].item(),
        address=address,
        # the formula of the table is plain text, not TeX
        formula=SOFTMAX_TEX if row.is_softmax else rf"\text{{{entry.formula if entry else align}}}",
        inputs=inputs,
        snippet=code
        or code_snippets.from_checkpoint(row, "attention_map.weights", address, (row.index, key), key_axis=1)
        or code_snippets.literal(address, row.line("weights")[key]),
    )


def make_product(row: QueryRow, key: int, dimension: int) -> Number:
    """One dimension of weight times value."""
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
        snippet=code_snippets.product(address, weight, value),
    )


def make_context(row: QueryRow, key: int, dimension: int) -> Number:
    """One dimension of the weighted sum."""
    address = row.address("context", row.query, dimension)
    weights, column = row.line("weights"), row.take("values")[:, dimension]
    # positions may add to the context, and the weighted sum alone is then another number
    code = code_snippets.context(address, weights, column) if row.is_sum else None
    return Number(
        value=row.line("context")[dimension].item(),
        address=address,
        formula=CONTEXT_TEX,
        inputs=[
            make_input("α", row.address("weight", row.query), weights),
            make_input("v", row.address("value", ":", dimension), column),
        ],
        snippet=code
        or code_snippets.from_checkpoint(row, "attention_map.context", address, (row.index, dimension))
        or code_snippets.literal(address, row.line("context")[dimension]),
    )


BUILDERS = {
    "query": make_query,
    "key": make_key,
    "value": make_value,
    "score": make_score,
    "allowed": make_allowed,
    "weight": make_weight,
    "product": make_product,
    "context": make_context,
}
