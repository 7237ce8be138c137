"""One training loop for the small models of all experiments: Adam, one cycle of the learning rate, clipped gradients.

rises linearly to its maximum, then falls along a cosine   Smith and Topin 2017. https://arxiv.org/abs/1708.07120
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.contracts import check_cancelled


def fit(
    model: nn.Module,
    loss_of: Callable[[int], Float[Tensor, ""]],
    *,
    steps: int,
    learning_rate: float = 5e-3,
    clip_norm: float = 1.0,
) -> list[float]:
    """Minimise `loss_of(step)`, which draws its own batch; returns the loss of every step. It can be cancelled."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=learning_rate, fused=True)
    # the schedule needs at least one step to fall
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=learning_rate, total_steps=max(steps, 2))
    losses = []
    model.train()
    for step in range(steps):
        check_cancelled()
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        # gradients through many steps may explode
        nn.utils.clip_grad_norm_(parameters, clip_norm)
        optimizer.step()
        schedule.step()
        # `item` waits for the device, which is cheap on the CPU, where experiments run
        losses.append(loss.item())
    # measurements follow, which must not depend on dropout
    model.eval()
    return losses
