"""Self-attention over an image: every position attends to every other.

    y = x + gamma attend(W_q x, W_k x, W_v x),   1x1 convolutions, gamma starts at 0

Zhang et al. 2019, section 3. https://arxiv.org/abs/1805.08318

Departs from the paper: values keep all channels; the paper reduces them to an eighth and expands them afterwards.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.scores import Dot


class ImageSelfAttention(nn.Module):
    """Initialised as the identity (gamma = 0). Keys have an eighth of the channels by default, as in the paper."""

    def __init__(self, *, channels: int, key_channels: int | None = None) -> None:
        super().__init__()
        key_channels = max(channels // 8, 1) if key_channels is None else key_channels
        self.query_proj = nn.Conv2d(channels, key_channels, kernel_size=1)
        self.key_proj = nn.Conv2d(channels, key_channels, kernel_size=1)
        self.value_proj = nn.Conv2d(channels, channels, kernel_size=1)
        self.attention = Attention(Dot())
        # gamma: at 0 the gradients of the projections are 0, so the first step changes gamma alone
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, image: Float[Tensor, "B C height width"]) -> Float[Tensor, "B C height width"]:
        """The image plus the gated result of attention."""
        # (B, C, height, width) -> (B, height x width, C): positions become the sequence
        queries, keys, values = (
            proj(image).flatten(2).transpose(1, 2) for proj in (self.query_proj, self.key_proj, self.value_proj)
        )
        attended = self.attention(queries, self.attention.prepare_memory(keys, values))
        # (B, height x width, C) -> (B, C, height, width)
        return image + self.gate * attended.context.transpose(1, 2).unflatten(2, image.shape[2:])
