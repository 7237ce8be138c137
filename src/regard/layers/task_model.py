"""The general task model: the four parts of an attention system.

    features = feature_model(inputs)
    queries  = query_model(query_inputs)
    context  = attention(queries, features)
    output   = output_model(context)

Brauwers and Frasincar 2021, section 2. https://arxiv.org/abs/2203.14263
"""

from typing import Any

from torch import Tensor, nn

from regard.attention import Attention, MultiHeadAttention


class TaskModel(nn.Module):
    """A feature model, a query model, an attention and an output model, composed in that order."""

    def __init__(
        self,
        *,
        feature_model: nn.Module,
        query_model: nn.Module,
        attention: Attention | MultiHeadAttention,
        output_model: nn.Module,
    ) -> None:
        super().__init__()
        self.feature_model = feature_model
        self.query_model = query_model
        self.attention = attention
        self.output_model = output_model

    def forward(self, inputs: Any, query_inputs: Any, *, mask: Tensor | None = None) -> Any:
        """The output; `mask` is True for real features, (batch, features)."""
        memory = self.attention.prepare_memory(self.feature_model(inputs), mask=mask)
        return self.output_model(self.attention(self.query_model(query_inputs), memory).context)
