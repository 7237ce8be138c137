"""Kernel regression: errors against a loop in float64, speed and memory.

Against KeOps, scikit-learn's kernels and statsmodels in 16 dimensions, each in the same dtype; the grid against the
fused path in one dimension; a million training points. Fitting is part of every time but statsmodels'.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.harness import Report, compare, peak_memory_mib, save
from regard.regression import NadarayaWatson

CHECKED = 200
"""Queries at which predictions are compared with a loop in float64."""

MILLIONS = ((16, "float32", 1.0), (16, "float64", 1.0), (1, "float64", 0.01))
"""Dimensions, dtype and bandwidth of a million points."""

DATA = """
import numpy as np
from regard.regression import NadarayaWatson
rng = np.random.default_rng(0)
inputs = rng.normal(size=(1_000_000, {size})).astype(np.{dtype})
queries = rng.normal(size=(10_000, {size})).astype(np.{dtype})
"""
PREDICT = "NadarayaWatson(bandwidth={bandwidth}).fit(inputs, inputs[:, 0]).predict(queries)"


def problem(num: int, num_queries: int, size: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets and queries."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(num, size))
    targets = np.sin(2 * inputs[:, 0]) + rng.normal(scale=0.5, size=num)
    queries = rng.normal(size=(num_queries, size))
    return inputs.astype(dtype), targets.astype(dtype), queries.astype(dtype)


def by_loop(inputs: np.ndarray, targets: np.ndarray, queries: np.ndarray, bandwidth: float) -> np.ndarray:
    """The formula, query by query, in float64."""
    inputs, targets, queries = (part.astype(np.float64) for part in (inputs, targets, queries))
    answers = []
    for query in queries:
        scores = -np.square((query - inputs) / bandwidth).sum(axis=1) / 2
        shares = np.exp(scores - scores.max())
        answers.append(shares @ targets / shares.sum())
    return np.array(answers)


def errors(candidates: dict[str, Callable[[], Any]], expected: np.ndarray) -> dict[str, str]:
    """The largest error of each, at the first queries."""
    found = {name: np.asarray(run()).ravel()[: len(expected)] for name, run in candidates.items()}
    return {f"error of {name}": f"{np.abs(answer - expected).max():.1e}" for name, answer in found.items()}


def keops(inputs: np.ndarray, targets: np.ndarray, queries: np.ndarray) -> Callable[[], Any]:
    """Two sums of one lazy kernel matrix: faster than KeOps' own softmax reduction."""
    from pykeops.torch import LazyTensor

    keys, queries_of_test = torch.from_numpy(inputs), torch.from_numpy(queries)
    values = torch.from_numpy(np.stack([targets, np.ones_like(targets)], axis=1))

    def run() -> torch.Tensor:
        apart = LazyTensor(queries_of_test[:, None, :]) - LazyTensor(keys[None, :, :])
        sums = (-(apart**2).sum(-1) / 2).exp() @ values
        return sums[:, 0] / sums[:, 1]

    return run


def fused(inputs: np.ndarray, targets: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The lowered Gaussian score of width 1 on SDPA: what `attend` runs."""
    keys, values, queries_of_test = (torch.from_numpy(part) for part in (inputs, targets[:, None], queries))
    keys = torch.cat([keys, -keys.square().sum(dim=-1, keepdim=True) / 2], dim=-1)
    queries_of_test = torch.cat([queries_of_test, torch.ones_like(queries_of_test[:, :1])], dim=-1)
    values = F.pad(values, (0, keys.shape[-1] - 1))
    context = F.scaled_dot_product_attention(*(part[None, None] for part in (queries_of_test, keys, values)), scale=1.0)
    return context[0, 0, :, 0].numpy()


def sixteen_dimensions(dtype: str) -> Report:
    """10,000 x 10,000, each in the same dtype."""
    inputs, targets, queries = problem(10_000, 10_000, 16, dtype)

    def scikit_learn() -> np.ndarray:
        kernel = rbf_kernel(queries, inputs, gamma=0.5)
        return (kernel @ targets) / kernel.sum(axis=1)

    candidates: dict[str, Callable[[], Any]] = {
        "regard": lambda: NadarayaWatson().fit(inputs, targets).predict(queries),
        "SDPA": lambda: fused(inputs, targets, queries),
        "scikit-learn rbf_kernel": scikit_learn,
    }
    notes = {}
    if find_spec("pykeops"):
        candidates["KeOps"] = keops(inputs, targets, queries)
    else:
        notes["KeOps"] = "not installed: pip install pykeops"
    notes |= errors(candidates, by_loop(inputs, targets, queries[:CHECKED], 1.0))
    question = f"10,000 points x 10,000 queries in 16 dimensions, {dtype}"
    return compare(question, candidates, baseline="regard", turns=9, notes=notes)


def loops() -> list[Report]:
    """statsmodels loops over queries in Python, so it gets a fiftieth of them."""
    if not find_spec("statsmodels"):
        print("statsmodels is not installed: pip install statsmodels")
        return []
    from statsmodels.nonparametric.kernel_regression import KernelReg

    inputs, targets, queries = problem(10_000, CHECKED, 16, "float64")
    model = KernelReg(targets, inputs, var_type="c" * 16, reg_type="lc", bw=np.ones(16))
    candidates = {
        "regard": lambda: NadarayaWatson().fit(inputs, targets).predict(queries),
        "statsmodels KernelReg": lambda: model.fit(queries)[0],
    }
    notes = errors(candidates, by_loop(inputs, targets, queries, 1.0))
    question = f"10,000 points x {CHECKED} queries in 16 dimensions, float64"
    return [compare(question, candidates, baseline="regard", turns=3, warmup=1, notes=notes)]


def one_dimension() -> Report:
    """100,000 x 100,000: the grid, exact sums over the keys in reach, and the fused path over all keys."""
    rng = np.random.default_rng(0)
    inputs, queries = rng.uniform(0, 10, size=(100_000, 1)), rng.uniform(-0.5, 10.5, size=(100_000, 1))
    targets, bandwidth = np.sin(inputs[:, 0]) + rng.normal(scale=0.5, size=100_000), 0.1

    def sdpa(dtype: str) -> np.ndarray:
        parts = (inputs - 5) / bandwidth, targets, (queries - 5) / bandwidth
        return fused(*(part.astype(dtype) for part in parts))

    def method(name: str) -> np.ndarray:
        return NadarayaWatson(bandwidth=bandwidth, method=name).fit(inputs, targets).predict(queries)

    candidates: dict[str, Callable[[], Any]] = {
        "binned": lambda: method("binned"),
        "exact": lambda: method("exact"),
        "SDPA, float32": lambda: sdpa("float32"),
        "SDPA, float64": lambda: sdpa("float64"),
    }
    notes = errors(candidates, by_loop(inputs, targets, queries[:CHECKED], bandwidth))
    question = "100,000 points x 100,000 queries in one dimension, 100 bandwidths long"
    return compare(question, candidates, baseline="binned", turns=3, warmup=0, notes=notes)


def memory(size: int, dtype: str, bandwidth: float) -> dict[str, Any]:
    """What a million points take, with the data and without."""
    data = DATA.format(size=size, dtype=dtype)
    return {
        "peak MiB, data alone": round(peak_memory_mib(data)),
        "peak MiB, data, fit and predict": round(peak_memory_mib(data + PREDICT.format(bandwidth=bandwidth))),
        "MiB of the weights, had they been formed": round(1e10 * np.dtype(dtype).itemsize / 2**20),
    }


def million(size: int, dtype: str, bandwidth: float, notes: dict[str, Any]) -> Report:
    """1,000,000 x 10,000."""
    inputs, targets, queries = problem(1_000_000, 10_000, size, dtype)
    answer = NadarayaWatson(bandwidth=bandwidth).fit(inputs, targets).predict(queries)
    expected = by_loop(inputs, targets, queries[:20], bandwidth)
    notes = {**notes, "error at 20 queries": f"{np.abs(answer[:20] - expected).max():.1e}"}
    candidates = {"regard": lambda: NadarayaWatson(bandwidth=bandwidth).fit(inputs, targets).predict(queries)}
    question = f"1,000,000 points x 10,000 queries, dimensions: {size}, {dtype}, bandwidth {bandwidth}"
    return compare(question, candidates, baseline="regard", turns=3, warmup=0, notes=notes)


def learning() -> Report:
    """A bandwidth learned from 100,000 points by 100 steps of descent over all of them."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(0, 5, size=(100_000, 1))
    targets = 2 * np.sin(inputs[:, 0]) + inputs[:, 0] ** 0.8 + rng.normal(scale=0.5, size=100_000)
    found = NadarayaWatson(bandwidth="learned", random_state=0).fit(inputs, targets).bandwidth_
    candidates = {"regard": lambda: NadarayaWatson(bandwidth="learned", random_state=0).fit(inputs, targets)}
    notes = {"bandwidth": f"{found:.4f}"}
    return compare(
        "learning a bandwidth from 100,000 points", candidates, baseline="regard", turns=2, warmup=0, notes=notes
    )


def run() -> list[Report]:
    """All measurements."""
    # first, while this process is small: a child's peak is counted from its parent's
    memories = [memory(*case) for case in MILLIONS]
    reports = [
        sixteen_dimensions("float32"),
        sixteen_dimensions("float64"),
        *loops(),
        one_dimension(),
        *(million(*case, notes) for case, notes in zip(MILLIONS, memories, strict=True)),
        learning(),
    ]
    save("regression", *reports)
    return reports


if __name__ == "__main__":
    run()
