"""The general task model: four parts that every attention system has, whatever it is called.

    features = feature_model(inputs)        what can be looked at
    queries  = query_model(asked)           what is being looked for
    context  = attention(queries, features) what was found
    answer   = output_model(context)        what it means for the task

Brauwers and Frasincar 2021, section 2. https://arxiv.org/abs/2203.14263
"""

from typing import Any

from torch import Tensor, nn

from regard.attention import Attention, MultiHeadAttention


class TaskModel(nn.Module):
    """Features, query, attention, output: any modules, put together in that order."""

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

    def forward(self, inputs: Any, asked: Any, *, mask: Tensor | None = None) -> Any:
        """The answer; `mask` is True where a feature is real, (batch, features)."""
        memory = self.attention.prepare_memory(self.feature_model(inputs), mask=mask)
        return self.output_model(self.attention(self.query_model(asked), memory).context)
