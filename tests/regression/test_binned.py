"""The grid in one dimension against exact sums: inside the data, in gaps, at outliers, far away."""

import numpy as np
import pytest
import torch

from regard.regression import NadarayaWatson, grid
from regard.regression.bandwidth_slope import predict_by_grid, predict_by_moments
from regard.regression.exact import predict_exact
from regard.regression.grid import predict_binned
from regard.regression.kernels import KERNELS
from regard.regression.training_set import prepare_training_set

NUM = 4000


def uniform(rng):
    return rng.uniform(0, 10, NUM), np.linspace(0, 10, 300)


def far_queries(rng):
    return rng.uniform(0, 10, NUM), np.concatenate([np.linspace(-30, 40, 300), [1e5, -1e9, 1e15]])


def gap(rng):
    inputs = rng.uniform(0, 10, NUM) + 5000 * rng.integers(0, 2, NUM)
    return inputs, np.concatenate([np.linspace(-5, 5020, 400), np.linspace(0, 15, 100)])


def narrow_gaps(rng):
    return rng.uniform(0, 1, NUM) + 4 * rng.integers(0, 10, NUM), np.linspace(-1, 40, 500)


def outlier(rng):
    return np.append(rng.normal(size=NUM), 1e12), np.append(rng.normal(size=100), [1e12, 1e12 + 1, 5e11])


def heavy_tails(rng):
    return rng.standard_cauchy(NUM), rng.standard_cauchy(500)


def duplicates(rng):
    return rng.integers(0, 20, NUM).astype(float), np.linspace(-2, 22, 200)


def constant(rng):
    return np.full(NUM, 3.0), np.linspace(0, 6, 50)


def one_point(rng):
    return np.array([3.0]), np.linspace(-10, 10, 50)


def far_from_zero(rng):
    return rng.uniform(0, 10, NUM) + 1e6, np.linspace(-1, 11, 200) + 1e6


CASES = [
    uniform,
    far_queries,
    gap,
    narrow_gaps,
    outlier,
    heavy_tails,
    duplicates,
    constant,
    one_point,
    far_from_zero,
]


def assert_same(sample, queries):
    binned = predict_binned(queries, sample)
    exact = predict_exact(queries, sample, KERNELS["gaussian"])
    # values are at most 1
    torch.testing.assert_close(binned, exact, atol=1e-8, rtol=0)


@pytest.mark.parametrize("bandwidth", [0.003, 0.2, 20.0])
@pytest.mark.parametrize("case", CASES)
def test_equals_exact(case, bandwidth):
    rng = np.random.default_rng(0)
    inputs, queries = case(rng)
    targets = np.stack([np.sin(inputs), rng.normal(size=len(inputs))], axis=1)
    weights = rng.uniform(0.1, 1, size=len(inputs))
    sample = prepare_training_set(inputs[:, None], targets, weights, np.asarray(bandwidth))
    assert_same(sample, sample.scale_inputs(queries[:, None]))


@pytest.mark.parametrize("case", [uniform, narrow_gaps, outlier, heavy_tails, duplicates, constant])
def test_left_out_predictions_and_slopes_equal_those_by_moments(case):
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(case(rng)[0].clip(-1e4, 1e4))[:, None]
    targets = torch.cat([inputs.sin(), inputs.cos()], dim=1)
    rows = torch.arange(0, len(inputs), 7)
    arguments = (inputs, targets, torch.from_numpy(rng.uniform(size=len(inputs))), torch.tensor(0.1).double(), rows)
    for actual, expected in zip(predict_by_grid(*arguments), predict_by_moments(*arguments), strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "weights", [lambda x: np.where(x < 5, 1.0, 1e-13), lambda x: np.where(x < 9.99, 1e-5, 1e5)], ids=["tiny", "huge"]
)
def test_keys_of_very_different_weight(weights):
    inputs, queries = uniform(np.random.default_rng(0))
    sample = prepare_training_set(inputs[:, None], np.sin(inputs)[:, None], weights(inputs), np.asarray(0.05))
    assert_same(sample, sample.scale_inputs(queries[:, None]))


def test_one_extreme_target_does_not_change_distant_predictions():
    inputs, queries = uniform(np.random.default_rng(0))
    targets = np.sin(inputs)
    targets[0] = 1e12
    away = queries[np.abs(queries - inputs[0]) > 1.5]
    kwargs = {"bandwidth": 0.1}
    binned = NadarayaWatson(method="binned", **kwargs).fit(inputs[:, None], targets).predict(away[:, None])
    tame = NadarayaWatson(method="exact", **kwargs).fit(inputs[1:, None], targets[1:]).predict(away[:, None])
    np.testing.assert_allclose(binned, tame, atol=1e-8)


def test_auto_uses_the_grid_where_it_is_faster():
    rng = np.random.default_rng(0)
    inputs, queries = rng.uniform(0, 10, (3000, 1)), rng.uniform(-1, 11, (3000, 1))
    targets = np.sin(inputs[:, 0])
    predictions = {
        method: NadarayaWatson(bandwidth=0.1, method=method).fit(inputs, targets).predict(queries)
        for method in ("auto", "exact", "binned")
    }
    np.testing.assert_array_equal(predictions["auto"], predictions["binned"])
    np.testing.assert_allclose(predictions["exact"], predictions["binned"], atol=1e-9)
    few = queries[:10]
    model = NadarayaWatson(bandwidth=0.1).fit(inputs, targets)
    np.testing.assert_array_equal(model.predict(few), model.set_params(method="exact").predict(few))


def test_the_grid_is_never_larger_than_the_data():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(0, 1e9, NUM)
    model = NadarayaWatson(bandwidth=1.0, method="binned").fit(inputs[:, None], inputs)
    np.testing.assert_allclose(model.predict(inputs[:, None]), inputs, rtol=1e-6)


def test_smoothing_sums_gaussians():
    rng = np.random.default_rng(0)
    places, masses, queries = rng.uniform(8, 30, 200), rng.normal(size=(2, 200)), rng.uniform(8, 30, 40)
    apart = places[:, None] - queries
    kernel = np.exp(-(apart**2) / 2)
    actual = grid.smooth_masses(places, masses, grid.num_cells(45.0), grid.gaussian, grid.squared_gaussian)
    for smoothed, expected in zip(actual, (kernel, apart**2 * kernel), strict=True):
        np.testing.assert_allclose(grid.interpolate(smoothed, queries), masses @ expected, atol=1e-10)
