"""Where every random generator stands (Python, numpy, torch on the CPU and on the GPU), as tensors of fixed shapes."""

import random
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def pack_random(device: torch.device) -> dict[str, Tensor]:
    """The state of all generators of this process; of the GPUs, that of its own device."""
    version, words, gauss = random.getstate()
    _, key, position, has_gauss, cached = np.random.get_state(legacy=True)
    tensors = {
        "python": torch.tensor([version, *words], dtype=torch.int64),
        "python_gauss": torch.tensor([gauss is not None, gauss or 0.0], dtype=torch.float64),
        "numpy": torch.tensor([position, has_gauss, *np.asarray(key).tolist()], dtype=torch.int64),
        "numpy_gauss": torch.tensor([cached], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def unpack_random(tensors: Mapping[str, Tensor], device: torch.device) -> None:
    """Put all generators back where they stood; the GPU's only where there was one."""
    version, *words = tensors["python"].tolist()
    has_gauss, gauss = tensors["python_gauss"].tolist()
    random.setstate((version, tuple(words), gauss if has_gauss else None))
    position, cached, *key = tensors["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(key, dtype=np.uint32), position, cached, tensors["numpy_gauss"].item()))
    # torch reads a state from where its memory begins, so a row of several must be a copy
    torch.set_rng_state(tensors["torch"].cpu().clone())
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"].cpu().clone(), device)
