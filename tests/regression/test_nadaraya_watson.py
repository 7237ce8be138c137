"""Predictions against a loop in float64, for every kernel, in any number of dimensions, near and far."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.regression import KERNELS, AveragePooling, NadarayaWatson
from regard.regression.kernels import find_kernel
from tests.regression import by_hand


def problem(num=400, size=2, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(num, size)) * 3
    shape = (num,) if outputs is None else (num, outputs)
    targets = rng.normal(size=shape) + np.sin(inputs).sum(axis=1).reshape(-1, *(1,) * (len(shape) - 1))
    queries = np.concatenate([rng.normal(size=(50, size)) * 3, rng.normal(size=(8, size)) * 100])
    return inputs, targets, queries


@pytest.mark.parametrize("bandwidth", [0.05, 0.7, 30.0])
@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("kernel", KERNELS)
def test_agrees_with_a_loop(kernel, size, bandwidth):
    inputs, targets, queries = problem(size=size)
    model = NadarayaWatson(kernel=kernel, bandwidth=bandwidth).fit(inputs, targets)
    expected = by_hand.predict(inputs, targets, queries, kernel=kernel, bandwidth=bandwidth)
    np.testing.assert_allclose(model.predict(queries), expected, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_many_tiles_and_blocks_agree_with_a_loop(kernel):
    inputs, targets, queries = problem(num=5000, size=3, outputs=2)
    queries = np.concatenate([queries, np.random.default_rng(1).normal(size=(2500, 3))])
    model = NadarayaWatson(kernel=kernel, bandwidth=2.0).fit(inputs, targets)
    expected = by_hand.predict(inputs, targets, queries[:80], kernel=kernel, bandwidth=2.0)
    np.testing.assert_allclose(model.predict(queries)[:80], expected, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_width_per_dimension_and_several_outputs(kernel):
    inputs, targets, queries = problem(size=3, outputs=2)
    bandwidth = [0.5, 2.0, 40.0]
    model = NadarayaWatson(kernel=kernel, bandwidth=bandwidth).fit(inputs, targets)
    expected = by_hand.predict(inputs, targets, queries, kernel=kernel, bandwidth=bandwidth)
    assert model.predict(queries).shape == (len(queries), 2)
    np.testing.assert_allclose(model.predict(queries), expected, atol=1e-9)
    np.testing.assert_array_equal(model.bandwidth_, bandwidth)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_weight_equals_that_many_repetitions_of_the_row(kernel):
    inputs, targets, queries = problem()
    times = np.random.default_rng(2).integers(0, 4, size=len(inputs))
    weighted = NadarayaWatson(kernel=kernel, bandwidth=0.4).fit(inputs, targets, sample_weight=times)
    repeated = NadarayaWatson(kernel=kernel, bandwidth=0.4).fit(inputs.repeat(times, axis=0), targets.repeat(times))
    np.testing.assert_allclose(weighted.predict(queries), repeated.predict(queries), atol=1e-12)
    expected = by_hand.predict(inputs, targets, queries, kernel=kernel, bandwidth=0.4, weights=times)
    np.testing.assert_allclose(weighted.predict(queries), expected, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_data_far_from_zero(kernel):
    inputs, targets, queries = problem(size=2)
    near = NadarayaWatson(kernel=kernel, bandwidth=0.7).fit(inputs, targets).predict(queries)
    far = NadarayaWatson(kernel=kernel, bandwidth=0.7).fit(inputs + 1e6, targets).predict(queries + 1e6)
    np.testing.assert_allclose(far, near, atol=1e-8)
    expected = by_hand.predict(inputs + 1e6, targets, queries + 1e6, kernel=kernel, bandwidth=0.7)
    np.testing.assert_allclose(far, expected, atol=1e-8)


@pytest.mark.parametrize("bandwidth", [1e-9, 1e-3, 1.0, 1e9])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [1, 2])
def test_far_from_all_data_the_nearest_predicts(kernel, size, bandwidth):
    inputs, targets, _ = problem(num=50, size=size)
    queries = np.array([[1e3], [1e9], [-1e9], [-1e200], [1e308]]) * np.ones(size)
    predictions = NadarayaWatson(kernel=kernel, bandwidth=bandwidth).fit(inputs, targets).predict(queries)
    assert np.isfinite(predictions).all()
    assert (predictions >= targets.min() - 1e-12).all()
    assert (predictions <= targets.max() + 1e-12).all()
    if size == 1 and bandwidth <= 1:
        ends = targets[inputs[:, 0].argmax()], targets[inputs[:, 0].argmin()]
        np.testing.assert_allclose(predictions[:3], [ends[0], ends[0], ends[1]], atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_outlier_does_not_reduce_the_precision_of_others(kernel):
    inputs, targets, queries = problem()
    model = NadarayaWatson(kernel=kernel, bandwidth=0.4)
    without = model.fit(inputs, targets).predict(queries)
    inputs, targets = np.append(inputs, [[1e14, -1e14]], axis=0), np.append(targets, 0.0)
    np.testing.assert_allclose(model.fit(inputs, targets).predict(queries), without, atol=1e-9)


def test_tiny_bandwidth_in_many_dimensions_is_the_nearest_neighbour():
    inputs, targets, queries = problem(num=300, size=12)
    model = NadarayaWatson(bandwidth=1e-7).fit(inputs, targets)
    nearest = np.square(queries[:, None] - inputs).sum(axis=-1).argmin(axis=1)
    np.testing.assert_allclose(model.predict(queries), targets[nearest], atol=1e-9)
    np.testing.assert_allclose(model.predict(inputs), targets, atol=1e-12)


def test_a_point_at_one_bandwidth_is_inside_the_boxcar():
    inputs = np.arange(10.0)[:, None] / 3 + 7
    targets = np.arange(10.0)
    predictions = NadarayaWatson(kernel="boxcar", bandwidth=1 / 3).fit(inputs, targets).predict(inputs)
    np.testing.assert_allclose(predictions, [0.5, *range(1, 9), 8.5])


@given(
    st.sampled_from(list(KERNELS)),
    st.integers(1, 30),
    st.integers(1, 3),
    st.floats(1e-6, 1e6),
    st.floats(-1e6, 1e6),
    st.integers(0, 2**31),
)
def test_predictions_are_means_of_targets(kernel, num, size, bandwidth, offset, seed):
    rng = np.random.default_rng(seed)
    inputs, targets = rng.normal(size=(num, size)) + offset, rng.normal(size=num)
    queries = np.concatenate([inputs, rng.standard_cauchy(size=(20, size)) + offset])
    predictions = NadarayaWatson(kernel=kernel, bandwidth=bandwidth).fit(inputs, targets).predict(queries)
    assert predictions.min() >= targets.min() - 1e-9
    assert predictions.max() <= targets.max() + 1e-9


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_float32_is_exact_to_five_digits(offset):
    inputs, targets, queries = problem(num=3000, size=4)
    inputs, queries = (inputs / 3 + offset).astype(np.float32), (queries / 3 + offset).astype(np.float32)
    for bandwidth in (0.05, 1.0):
        predictions = NadarayaWatson(bandwidth=bandwidth).fit(inputs, targets).predict(queries)
        expected = by_hand.predict(inputs, targets, queries, bandwidth=bandwidth)
        np.testing.assert_allclose(predictions, expected, atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_are_the_prediction(kernel):
    inputs, targets, queries = problem()
    times = np.random.default_rng(3).integers(0, 3, size=len(inputs))
    model = NadarayaWatson(kernel=kernel, bandwidth=3.0).fit(inputs, targets, sample_weight=times)
    weights = model.weights(queries[:50])
    assert weights.shape == (50, len(inputs))
    assert (weights[:, times == 0] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights @ targets, model.predict(queries[:50]), atol=1e-9)


def test_average_pooling_is_the_limit_of_a_wide_kernel():
    inputs, targets, queries = problem(outputs=2)
    times = np.random.default_rng(4).integers(0, 3, size=len(inputs))
    mean = np.average(targets, axis=0, weights=times)
    pooled = AveragePooling().fit(inputs, targets, sample_weight=times)
    np.testing.assert_allclose(pooled.predict(queries), np.tile(mean, (len(queries), 1)))
    wide = NadarayaWatson(bandwidth=1e9).fit(inputs, targets, sample_weight=times)
    np.testing.assert_allclose(wide.predict(queries), pooled.predict(queries), atol=1e-9)


def test_a_constant_target_is_exact():
    inputs, _, queries = problem()
    assert (NadarayaWatson(bandwidth=0.1).fit(inputs, np.full(len(inputs), 0.1)).predict(queries) == 0.1).all()


def test_profiles_are_the_table():
    distances = np.linspace(0, 2, 41)
    for name in KERNELS:
        actual = find_kernel(name).profile(torch.from_numpy(distances)).numpy()
        np.testing.assert_allclose(actual, by_hand.PROFILES[name](distances), atol=1e-12)
    years = [kernel.year for kernel in KERNELS.values()]
    assert years == sorted(years)


@pytest.mark.parametrize("kernel", KERNELS)
def test_predictions_do_not_depend_on_threads_and_leave_their_number_unchanged(kernel):
    inputs, targets, _ = problem(num=3000, size=3)
    model = NadarayaWatson(kernel=kernel, bandwidth=0.5).fit(inputs, targets)
    alone = model.predict(inputs)
    torch.set_num_threads(2)
    together = model.predict(inputs)
    assert torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_a_model_survives_pickling():
    inputs, targets, queries = problem()
    model = NadarayaWatson(bandwidth=0.5).fit(inputs, targets)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(queries), model.predict(queries))


MEMORY = """
import re
from pathlib import Path
import numpy as np
from regard.regression import NadarayaWatson

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

rng = np.random.default_rng(0)
inputs = rng.normal(size=(200_000, 4))
model = NadarayaWatson(kernel={kernel!r}, bandwidth=0.5).fit(inputs[:10], inputs[:10, 0])
model.predict(inputs[:10])
before = peak()
model.fit(inputs, inputs[:, 0]).predict(inputs[:500])
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the peak of its memory")
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_memory_is_linear(kernel):
    process = subprocess.run(
        [sys.executable, "-c", MEMORY.format(kernel=kernel)], capture_output=True, text=True, check=True
    )
    # the weights alone would take 763 MiB
    assert float(process.stdout) < 150
