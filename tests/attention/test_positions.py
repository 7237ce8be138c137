"""Position schemes against their formulas."""

import math

import pytest
import torch

from regard import MultiHeadAttention
from regard.attention.masks import causal
from regard.attention.positions import POSITIONS, Alibi, Learned, Relative, Rotary, Sinusoidal
from regard.attention.positions.alibi import slopes
from regard.contracts import PositionScheme
from tests.contracts.cases import build


def test_sinusoids_by_hand_and_their_norm():
    actual = Sinusoidal(hidden_size=6).encode(torch.tensor([0, 3, 1000]))
    for row, position in enumerate((0, 3, 1000)):
        for pair in range(3):
            angle = position / 10_000 ** (2 * pair / 6)
            assert actual[row, 2 * pair].item() == pytest.approx(math.sin(angle), abs=2e-4)
            assert actual[row, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=2e-4)
    assert actual.norm(dim=-1).allclose(torch.full((3,), math.sqrt(3)))
    assert Sinusoidal(hidden_size=5).encode(torch.arange(2)).shape == (2, 5)


@pytest.mark.parametrize("scheme", [Sinusoidal(hidden_size=4), Learned(hidden_size=4, max_length=10)])
def test_added_schemes_take_positions(scheme):
    states = torch.randn(2, 3, 4)
    assert scheme(states)[:, 1:].allclose(scheme(states[:, 1:], torch.tensor([1, 2])))


def test_rotary_products_depend_only_on_the_distance():
    scheme = Rotary(head_size=8)
    q, k = torch.randn(1, 8, dtype=torch.float64), torch.randn(1, 8, dtype=torch.float64)

    def product(i, j):
        return (scheme.transform(q, torch.tensor([i])) * scheme.transform(k, torch.tensor([j]))).sum()

    assert product(3, 7).allclose(product(53, 57), atol=1e-5)
    assert not product(3, 7).allclose(product(3, 8), atol=1e-3)
    assert scheme.transform(q, torch.tensor([0])).allclose(q)
    assert scheme.transform(q, torch.tensor([9])).norm().allclose(q.norm())


def test_alibi_slopes_of_the_paper_and_between():
    assert slopes(8) == [2**-i for i in range(1, 9)]
    assert len(slopes(12)) == 12 and slopes(12)[:8] == slopes(8)
    assert slopes(12)[8:] == slopes(16)[0:8:2]
    bias = Alibi(num_heads=2).bias(torch.zeros(2, 2, 4), torch.tensor([2, 3]), torch.tensor([0, 3]))
    assert bias[0].tolist() == [[-2 * 2**-4, -1 * 2**-4], [-3 * 2**-4, 0]]


def test_relative_equals_the_sums_of_the_paper():
    torch.manual_seed(0)
    scheme = Relative(head_size=4, max_distance=2).double()
    heads = MultiHeadAttention(8, 2, positions=scheme).double()
    x = torch.randn(5, 8, dtype=torch.float64)
    attended = heads(x, mask=causal(), return_weights=True)
    q, k, v = (proj(x).unflatten(-1, (2, 4)) for proj in (heads.query_proj, heads.key_proj, heads.value_proj))
    out = torch.zeros(5, 2, 4, dtype=torch.float64)
    for h in range(2):
        for i in range(5):
            row = [max(-2, min(2, j - i)) + 2 for j in range(i + 1)]
            scores = torch.stack([q[i, h] @ (k[j, h] + scheme.key_table[row[j]]) / 2 for j in range(i + 1)])
            weights = torch.softmax(scores, 0)
            assert attended.weights[h, i, : i + 1].allclose(weights, atol=1e-10)
            out[i, h] = sum(weights[j] * (v[j, h] + scheme.value_table[row[j]]) for j in range(i + 1))
    assert attended.context.allclose(heads.output_proj(out.flatten(1)), atol=1e-10)
    assert heads(x, mask=causal()).context.allclose(attended.context, atol=1e-10)


@pytest.mark.parametrize("name", POSITIONS)
def test_every_scheme_breaks_permutation_equivariance(name):
    torch.manual_seed(0)
    inside = issubclass(POSITIONS[name].build, PositionScheme)
    scheme = build(POSITIONS[name], head_size=4, hidden_size=8, num_heads=2).double()
    attention = MultiHeadAttention(8, 2, positions=scheme if inside else None).double()
    place = (lambda states: states) if inside else scheme
    x, order = torch.randn(6, 8, dtype=torch.float64), torch.tensor([3, 1, 0, 5, 4, 2])
    difference = attention(place(x[order])).context - attention(place(x)).context[order]
    assert difference.abs().max() > 1e-3
    plain = MultiHeadAttention(8, 2).double()
    assert plain(x[order]).context.allclose(plain(x).context[order], atol=1e-10)


@pytest.mark.parametrize("name", POSITIONS)
def test_gradients_saved_state_and_batch(name):
    scheme = build(POSITIONS[name], head_size=4, hidden_size=4, num_heads=2).double()
    inside = isinstance(scheme, PositionScheme)
    attention = MultiHeadAttention(8, 2, positions=scheme if inside else None).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)

    def run(states):
        if inside:
            return attention(states, mask=causal()).context
        return scheme(states[..., :4])

    assert torch.autograd.gradcheck(run, x, fast_mode=True)
    assert run(x)[1:].allclose(run(x[1:]), atol=1e-10)
    other = build(POSITIONS[name], head_size=4, hidden_size=4, num_heads=2).double()
    other.load_state_dict(scheme.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(scheme.parameters(), other.parameters(), strict=True))
