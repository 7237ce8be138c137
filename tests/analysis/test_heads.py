"""Figures of heads whose values are known."""

import numpy as np
import pytest
import torch

from regard.analysis import diagonal_mass, entropy, mean_distance


def test_statistics_of_known_heads():
    eye, even = torch.eye(5)[None], torch.full((1, 5, 5), 0.2)
    assert mean_distance(eye).item() == 0 and diagonal_mass(eye).item() == 1 and entropy(eye).sum() == 0
    assert mean_distance(even).item() == pytest.approx(1.6) and diagonal_mass(even).item() == pytest.approx(13 / 25)
    assert entropy(even).mean().item() == pytest.approx(np.log(5))
    # twice as many queries as keys: the diagonal has the slope 2
    steep = torch.eye(3).repeat_interleave(2, 0)[None]
    assert diagonal_mass(steep, stretched=True).item() == 1
    # the first query attends to nothing, every other one to the token before it
    tape = torch.eye(4).roll(1, 0).tril(-1)[None]
    assert mean_distance(tape).item() == 1 and diagonal_mass(tape).item() == 1
