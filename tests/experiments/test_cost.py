"""Cost against length: exponents and verdicts from synthetic times; memory is exact, and no time is tested."""

import pytest
import torch

from regard.experiments.cost import FULL, LENGTHS, STEPS, WHOLE, Cost, Layers, judge
from regard.experiments.lib.memory import peak_bytes, state_bytes

EXPONENTS = {"plain": (2, 2), "fused": (2, 1), "cached step": (1, 1)}
EXPONENTS |= dict.fromkeys(("windowed", "linear", "RNN"), (1, 1)) | dict.fromkeys(("linear step", "RNN step"), (0, 0))


def costs_of(*, noise=0.02, **changes):
    """Power laws with these exponents, in five turns."""
    sizes = [256, 512, 1024, 2048]
    return {
        name: Cost(
            lengths=sizes,
            seconds=[
                [n**time * (1 + noise * (-1) ** (turn + place)) for turn in range(5)] for place, n in enumerate(sizes)
            ],
            memory=[round(1000 * n**memory) for n in sizes],
        )
        for name, (time, memory) in (EXPONENTS | changes).items()
    }


def test_the_exponents_of_the_claim_hold():
    holds, verdict = judge(costs_of())
    assert holds is True, verdict
    assert "plain time n^2.00, memory n^2.00" in verdict.en
    assert "16 of 16 exponents" in verdict.en
    assert verdict.zh.endswith("16 个指数中有 16 个明显符合这个说法。")


@pytest.mark.parametrize(
    ("changes", "wrong", "chinese"),
    [
        ({"plain": (1, 2)}, "plain, time", "显式算出权重（时间）"),
        ({"fused": (2, 2)}, "fused, memory", "融合算子（内存）"),
        ({"linear": (2, 1)}, "linear, time", "线性注意力（时间）"),
        ({"RNN step": (1, 0)}, "RNN step, time", "RNN 的一步（时间）"),
        ({"cached step": (0, 1)}, "cached step, time", "使用缓存的一步（时间）"),
    ],
)
def test_an_exponent_on_the_other_side_refutes_it(changes, wrong, chinese):
    holds, verdict = judge(costs_of(**changes))
    assert holds is False
    assert f"on the other side: {wrong}." in verdict.en
    assert verdict.zh.endswith(f"；不符合的有：{chinese}。")


def test_exponents_near_a_bound_do_not_decide():
    assert judge(costs_of(fused=(1.5, 1), noise=0.3))[0] is None


def test_the_peak_is_what_is_held_at_once():
    def compute():
        first = torch.zeros(1000)
        del first
        return torch.zeros(3000)

    # float32; a few numbers more or less for the arguments
    assert peak_bytes({"a": compute, "b": lambda: None})["a"] == pytest.approx(12_000, abs=100)


def test_formed_weights_take_quadratic_memory_and_fused_ones_do_not():
    layers = Layers.of(16, 2)
    with torch.no_grad():
        peaks = peak_bytes(
            {
                (name, length): layers.whole(name, torch.randn(1, length, 16))
                for name in ("plain", "fused")
                for length in (256, 512)
            }
        )
    assert peaks["plain", 512] > 3 * peaks["plain", 256]
    assert peaks["fused", 512] < 3 * peaks["fused", 256]


def test_a_cache_grows_and_the_states_of_the_others_do_not():
    layers = Layers.of(16, 2)
    with torch.no_grad():
        bytes_of = {
            (name, length): state_bytes(layers.step(name, torch.randn(1, length, 16), 0).state)
            for name in STEPS
            for length in (8, 32)
        }
    # keys and values of all positions
    assert bytes_of["cached step", 32] == 2 * 32 * 16 * 4 == 4 * bytes_of["cached step", 8]
    assert bytes_of["RNN step", 32] == bytes_of["RNN step", 8] == 16 * 4
    assert bytes_of["linear step", 32] == bytes_of["linear step", 8]


def test_every_computation_has_three_lengths_for_its_exponent():
    for lengths in (LENGTHS, FULL["lengths"]):
        assert set(lengths) == {*WHOLE, "steps"}
        assert all(len(values) >= 3 for values in lengths.values())
