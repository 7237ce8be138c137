"""Bandwidths learned by gradient descent on the leave-one-out loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from regard.regression import AveragePooling, LeaveOneOut, NadarayaWatson
from regard.regression.bandwidth import OTHERS, BandwidthObjective, learn_bandwidth
from regard.regression.kernels import KERNELS
from tests.regression import by_hand


def true_function(inputs):
    return 2 * np.sin(inputs) + inputs**0.8


def curve(num, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(0, 5, num)
    return inputs[:, None], true_function(inputs) + rng.normal(scale=0.5, size=num)


def error(model, num=50):
    places = np.linspace(0, 5, 200)
    return np.square(model.fit(*curve(num)).predict(places[:, None]) - true_function(places)).mean()


def make_objective(num=60, size=1, outputs=1, kernel="gaussian", **changes):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(num, size, generator=generator, dtype=torch.float64)
    targets = inputs.sin().sum(dim=-1, keepdim=True) + torch.randn(
        num, outputs, generator=generator, dtype=torch.float64
    )
    log_weights = torch.rand(num, generator=generator, dtype=torch.float64).log()
    plain = BandwidthObjective(
        inputs=inputs,
        targets=targets,
        log_weights=log_weights,
        kernel=KERNELS[kernel],
        mask=OTHERS,
        by_moments=False,
    )
    return replace(plain, **changes)


@pytest.mark.parametrize("kernel", ["gaussian", "triangular", "epanechnikov"])
def test_learned_beats_fixed_beats_pooling(kernel):
    pooled = error(AveragePooling())
    fixed = error(NadarayaWatson(kernel=kernel, bandwidth=1.0 if kernel == "gaussian" else 2.5))
    learned = error(NadarayaWatson(kernel=kernel, bandwidth="learned", random_state=0))
    assert learned < fixed / 2 < pooled / 2


def test_learned_is_near_the_best_of_many_fixed():
    learned = error(NadarayaWatson(bandwidth="learned", random_state=0), num=500)
    best = min(error(NadarayaWatson(bandwidth=width), num=500) for width in np.geomspace(0.01, 2, 30))
    assert learned < 1.3 * best


def test_the_loss_excludes_each_input_itself():
    objective = make_objective(kernel="gaussian")
    rows = slice(10, 40)
    expected = []
    inputs, targets, weights = objective.inputs.numpy(), objective.targets.numpy(), objective.log_weights.exp().numpy()
    for row in range(rows.start, rows.stop):
        others = np.arange(len(inputs)) != row
        prediction = by_hand.predict(
            inputs[others], targets[others], inputs[[row]], bandwidth=0.3, weights=weights[others]
        )
        expected.append(weights[row] * np.square(prediction[0] - targets[row]).mean())
    loss = objective.loss(torch.tensor(0.3, dtype=torch.float64).log(), rows)
    assert float(loss) == pytest.approx(sum(expected) / weights[rows].sum(), rel=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "triangular", "epanechnikov"])
def test_the_slope_equals_finite_differences(kernel):
    objective = make_objective(size=2, kernel=kernel)
    start = torch.tensor([-0.5, 0.3], dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda point: objective.loss(point, slice(5, 50)), (start,), atol=1e-6)


@pytest.mark.parametrize("bandwidth", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize(("size", "outputs", "widths"), [(1, 1, 0), (1, 2, 1), (3, 2, 3), (3, 1, 0)])
def test_moments_give_the_same_loss_and_slope(size, outputs, widths, bandwidth):
    objective = make_objective(num=300, size=size, outputs=outputs)
    start = torch.full((widths,) if widths else (), bandwidth, dtype=torch.float64).log()
    loss, slope = objective.loss_and_slope(start, slice(20, 250))
    quick_loss, quick_slope = replace(objective, by_moments=True).loss_and_slope(start, slice(20, 250))
    torch.testing.assert_close(quick_loss, loss, atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(quick_slope, slope, atol=1e-7, rtol=1e-6)


def test_without_leaving_one_out_the_bandwidth_collapses():
    inputs, targets = curve(50)
    honest = NadarayaWatson(bandwidth="learned", random_state=0).fit(inputs, targets)
    short, long = (
        NadarayaWatson(bandwidth=LeaveOneOut(mask=None, steps=steps), random_state=0).fit(inputs, targets)
        for steps in (20, 120)
    )
    assert long.bandwidth_ < short.bandwidth_ < honest.bandwidth_ / 5
    assert long.score(inputs, targets) > 0.999
    assert error(honest) < error(long) / 3


@pytest.mark.parametrize("num", [300, 1000])
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_one_width_per_dimension_widens_the_irrelevant_one(kernel, num):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(num, 2))
    targets = np.sin(2 * inputs[:, 0]) + rng.normal(scale=0.1, size=num)
    how = LeaveOneOut(widths="per_dimension", pairs=2**17)
    model = NadarayaWatson(kernel=kernel, bandwidth=how, random_state=0).fit(inputs, targets)
    relevant, irrelevant = model.bandwidth_
    assert irrelevant > 5 * relevant
    one = NadarayaWatson(kernel=kernel, bandwidth=LeaveOneOut(pairs=2**17), random_state=0).fit(inputs, targets)
    fresh = rng.normal(size=(500, 2))
    assert model.score(fresh, np.sin(2 * fresh[:, 0])) > one.score(fresh, np.sin(2 * fresh[:, 0]))
    named = NadarayaWatson(kernel=kernel, bandwidth="learned_per_dimension", random_state=0)
    assert named.fit(inputs[:50], targets[:50]).bandwidth_.shape == (2,)


def test_batches_learn_the_bandwidth_of_the_whole_set():
    inputs, targets = curve(3000)
    whole = NadarayaWatson(bandwidth="learned", random_state=0).fit(inputs, targets)
    plane = np.concatenate([inputs, np.zeros_like(inputs)], axis=1)
    batched = NadarayaWatson(bandwidth=LeaveOneOut(pairs=2**17), random_state=0).fit(plane, targets)
    assert batched.bandwidth_ == pytest.approx(whole.bandwidth_, rel=0.5)


def test_the_same_seed_gives_the_same_bandwidth():
    inputs, targets = curve(600)
    inputs = np.concatenate([inputs, inputs**2], axis=1)
    how = LeaveOneOut(pairs=2**14, steps=10)
    actual = [NadarayaWatson(bandwidth=how, random_state=seed).fit(inputs, targets).bandwidth_ for seed in (0, 0, 1)]
    assert actual[0] == actual[1] != actual[2]


@pytest.mark.parametrize(
    "inputs",
    [np.ones((1, 2)), np.ones((30, 2)), np.array([[0.0], [1e9]]), np.r_[np.zeros(20), 1e-9, 1e9][:, None]],
    ids=["one row", "constant", "two rows", "extremes"],
)
@pytest.mark.parametrize("bandwidth", ["learned", "learned_per_dimension"])
@pytest.mark.parametrize("kernel", ["gaussian", "triangular"])
def test_degenerate_data_give_a_finite_bandwidth(inputs, bandwidth, kernel):
    targets = np.arange(len(inputs), dtype=float)
    model = NadarayaWatson(kernel=kernel, bandwidth=bandwidth, random_state=0).fit(inputs, targets)
    assert np.isfinite(model.bandwidth_).all()
    assert (np.asarray(model.bandwidth_) > 0).all()
    assert np.isfinite(model.predict(inputs)).all()


@pytest.mark.parametrize("num", [200, 3000])
def test_an_outlier_does_not_hide_the_bandwidth(num):
    inputs, targets = curve(num)
    alone = NadarayaWatson(bandwidth="learned", random_state=0).fit(inputs, targets).bandwidth_
    inputs, targets = np.append(inputs, [[1e12]], axis=0), np.append(targets, 0.0)
    actual = NadarayaWatson(bandwidth="learned", random_state=0).fit(inputs, targets).bandwidth_
    assert actual == pytest.approx(alone, rel=0.2)


def test_a_weight_of_zero_excludes_a_row():
    inputs, targets = curve(80)
    weights = np.r_[np.ones(40), np.zeros(40)]
    part = NadarayaWatson(bandwidth="learned", random_state=0).fit(inputs[:40], targets[:40])
    zeros = NadarayaWatson(bandwidth="learned", random_state=0).fit(inputs, targets, sample_weight=weights)
    assert zeros.bandwidth_ == pytest.approx(part.bandwidth_)


def test_clones_learn_the_same():
    inputs, targets = curve(2000)
    model = NadarayaWatson(bandwidth=LeaveOneOut(steps=5), random_state=0)
    assert clone(model).fit(inputs, targets).bandwidth_ == model.fit(inputs, targets).bandwidth_


def test_learn_bandwidth_accepts_any_generator():
    objective = make_objective()
    actual = learn_bandwidth(
        objective.inputs,
        objective.targets,
        objective.log_weights,
        kernel=objective.kernel,
        how=LeaveOneOut(steps=3),
        generator=torch.Generator().manual_seed(0),
    )
    assert actual.shape == ()
    assert actual > 0
