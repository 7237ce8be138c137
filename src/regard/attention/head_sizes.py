"""The six sizes of multi-head attention, which are independent of each other.

    head_h = attend(W_q^h q, W_k^h k, W_v^h v) in R^{p_v},   W_q^h: p_k x d_q,  W_k^h: p_k x d_k,  W_v^h: p_v x d_v
    output = W_o [head_1; ...; head_H] in R^{p_o}

d_q query_size, d_k key_size, d_v value_size; p_k head_size, of queries and keys, which a score may compare;
p_v value_head_size; p_o output_size. Vaswani et al. 2017 have d_q = d_k = d_v = p_o and p_k = p_v = d_q / H.
"""

from dataclasses import dataclass, fields

from torch import Tensor

from regard.attention.checks import check_size
from regard.attention.masks.algebra import check_count


@dataclass(frozen=True, kw_only=True)
class HeadSizes:
    """Sizes of the states that enter, of the vectors inside each head, and of the output."""

    query_size: int
    key_size: int
    value_size: int
    head_size: int
    value_head_size: int
    output_size: int

    def __post_init__(self) -> None:
        for field in fields(self):
            check_count(field.name, getattr(self, field.name), 1)

    @classmethod
    def divide(cls, hidden_size: int, num_heads: int, source_size: int | None = None) -> "HeadSizes":
        """The usual sizes: the hidden size in and out, and its share inside each head; keys and values from a source.

        Other sizes are set with `dataclasses.replace`.
        """
        source_size = hidden_size if source_size is None else source_size
        check_count("hidden_size", hidden_size, 1)
        check_count("num_heads", num_heads, 1)
        check_count("source_size", source_size, 1)
        if hidden_size % num_heads:
            # -(-a // b) rounds up
            multiple = -(-hidden_size // num_heads) * num_heads
            raise ValueError(
                f"hidden_size {hidden_size} is not divisible by num_heads {num_heads}. Choose a number that divides "
                f"it, hidden_size={multiple}, or HeadSizes with a head_size of its own."
            )
        head_size = hidden_size // num_heads
        return cls(
            query_size=hidden_size,
            key_size=source_size,
            value_size=source_size,
            head_size=head_size,
            value_head_size=head_size,
            output_size=hidden_size,
        )

    def are_divided(self, num_heads: int) -> bool:
        """True for the sizes of `divide`."""
        return (
            self.query_size == self.output_size == self.head_size * num_heads
            and self.key_size == self.value_size
            and self.value_head_size == self.head_size
        )

    def describe(self, heads: str, num_heads: int) -> str:
        """The arguments of the attention that print shows, with the text on its heads."""
        if not self.are_divided(num_heads):
            return f"{self}, {heads}"
        source = "" if self.key_size == self.query_size else f", source_size={self.key_size}"
        return f"{self.query_size}, {heads}, head_size={self.head_size}{source}"

    def check(self, name: str, states: Tensor, role: str, num_heads: int) -> None:
        """States have the size of their role; an error names it as the constructor was called."""
        expected = getattr(self, role)
        if self.are_divided(num_heads):
            role = "hidden_size" if role == "query_size" else "source_size"
        check_size(name, states, expected, f"MultiHeadAttention({role}={expected})")

    def check_shared_states(self) -> None:
        """One sequence of states can be both keys and values."""
        if self.key_size != self.value_size:
            raise ValueError(
                f"values are missing: the states cannot be keys of size {self.key_size} and values of size "
                f"{self.value_size}. Call prepare_memory(states, values)."
            )

    def check_self_attention(self) -> None:
        """Queries can be their own keys and values."""
        if not self.query_size == self.key_size == self.value_size:
            raise ValueError(
                f"self-attention needs states of one size, but this attention has query_size={self.query_size}, "
                f"key_size={self.key_size} and value_size={self.value_size}. Pass a memory: "
                f"attention(queries, attention.prepare_memory(states, values))."
            )
