"""What all contract tests share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors this small gain nothing from more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
