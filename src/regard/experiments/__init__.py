"""Common claims about attention, each tested: a table, a figure and a computed verdict."""

from types import ModuleType

from regard.experiments import (
    alignment,
    attention_span,
    bottleneck,
    causal_mask,
    directions,
    distance,
    embedding_scale,
    feed_forward,
    gradients,
    own_outputs,
    parallelism,
    permutation,
    pooling,
    scaling,
)
from regard.experiments.lib.finding import Experiment
from regard.experiments.pooling import MAX_X, CurveSample, predict, sine_and_power
from regard.experiments.scaling import entropy_of

VASWANI = "https://arxiv.org/abs/1706.03762"

BAHDANAU = "https://arxiv.org/abs/1409.0473"
DANILUK = "https://arxiv.org/abs/1702.04521"
RESNET = "https://arxiv.org/abs/1512.03385"
NADARAYA = "https://doi.org/10.1137/1109020"


def entry(module: ModuleType, number: str, paper: str) -> Experiment:
    """The entry of a module with `run`, TITLE and CLAIM; FULL, CHINESE and BOUNDS where it has them."""
    return Experiment(
        run=module.run,
        number=number,
        title=module.TITLE,
        claim=module.CLAIM,
        paper=paper,
        full=getattr(module, "FULL", {}),
        chinese=getattr(module, "CHINESE", {}),
        bounds=getattr(module, "BOUNDS", {}),
    )


EXPERIMENTS = {
    "pooling": entry(pooling, "G1", NADARAYA),
    "scaling": entry(scaling, "G2", VASWANI),
    "embedding_scale": entry(embedding_scale, "G3", VASWANI),
    "permutation": entry(permutation, "G4", VASWANI),
    "bottleneck": entry(bottleneck, "G5", BAHDANAU),
    "distance": entry(distance, "G6", VASWANI),
    "gradients": entry(gradients, "G7", RESNET),
    "parallelism": entry(parallelism, "G8", VASWANI),
    "alignment": entry(alignment, "G9", BAHDANAU),
    "attention_span": entry(attention_span, "G12", DANILUK),
    "own_outputs": entry(own_outputs, "G15", "https://arxiv.org/abs/1506.03099"),
    "causal_mask": entry(causal_mask, "G16", VASWANI),
    "directions": entry(directions, "G19", "https://doi.org/10.1109/78.650093"),
    "feed_forward": entry(feed_forward, "G20", VASWANI),
}

__all__ = ["EXPERIMENTS", "MAX_X", "VASWANI", "CurveSample", "entropy_of", "predict", "sine_and_power"]
