"""Self-attention over an image: every position attends to every other.

    y = x + gamma W_o attend(W_q x, W_k x, W_v x),   1x1 convolutions, gamma starts at 0

Zhang et al. 2019, section 3. https://arxiv.org/abs/1805.08318

As in the paper: dot products without a scale, softmax over all positions, queries, keys and values of an eighth of the
channels, a last 1x1 convolution back to all channels, and one gate for the whole layer.

Departs from the paper: the convolutions have biases, and there is no spectral normalisation (for adversarial training).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.scores import Dot


class ImageSelfAttention(nn.Module):
    """Initialised as the identity (gamma = 0). Keys and values have an eighth of the channels by default."""

    def __init__(self, *, channels: int, key_channels: int | None = None, value_channels: int | None = None) -> None:
        super().__init__()
        key_channels = max(channels // 8, 1) if key_channels is None else key_channels
        value_channels = max(channels // 8, 1) if value_channels is None else value_channels
        self.query_proj = nn.Conv2d(channels, key_channels, kernel_size=1)
        self.key_proj = nn.Conv2d(channels, key_channels, kernel_size=1)
        self.value_proj = nn.Conv2d(channels, value_channels, kernel_size=1)
        self.output_proj = nn.Conv2d(value_channels, channels, kernel_size=1)
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
        # (B, height x width, value channels) -> (B, value channels, height, width)
        context = attended.context.transpose(1, 2).unflatten(2, image.shape[2:])
        return image + self.gate * self.output_proj(context)
