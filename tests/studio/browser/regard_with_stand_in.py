"""The command `regard` with another experiment, whose outcome and duration follow from its settings."""

import runpy
import time

from regard.contracts import Title, check_cancelled
from regard.experiments import EXPERIMENTS
from regard.experiments.lib import Experiment, Finding

CLAIM = Title(en="A quantity grows with the repetitions.", zh="某个量随重复次数增大。")


def run(*, seed: int = 0, repeats: int = 4, steps: int = 1) -> Finding:
    """Four repetitions or more show that the claim holds, three that it does not, fewer decide nothing."""
    for _ in range(steps):
        check_cancelled()
        time.sleep(0.01)
    if repeats == 8:
        raise ValueError("8 repetitions are too many. Take fewer.")
    return Finding(
        name="stand_in",
        claim=CLAIM,
        rows=({"points": repeats, "error": seed + 0.5},),
        verdict=Title(en=f"Measured {repeats} times.", zh=f"共测量 {repeats} 次。"),
        holds=None if repeats < 3 else repeats > 3,
        draw=lambda figure: figure.subplots().plot([1, repeats]),
    )


EXPERIMENTS["stand_in"] = Experiment(
    run=run,
    number="G99",
    title=Title(en="Stand-in", zh="替代实验"),
    claim=CLAIM,
    paper="https://example.org",
    bounds={"steps": (1, 100_000)},
)

if __name__ == "__main__":
    runpy.run_module("regard", run_name="__main__")
