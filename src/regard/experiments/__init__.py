"""Common claims about attention, each tested: a table, a figure and a computed verdict."""

from types import ModuleType

from regard.experiments import alignment, attention_span, causal_mask, embedding_scale, permutation, pooling, scaling
from regard.experiments.lib.finding import Experiment
from regard.experiments.pooling import MAX_X, CurveSample, predict, sine_and_power
from regard.experiments.scaling import entropy_of

VASWANI = "https://arxiv.org/abs/1706.03762"

BAHDANAU = "https://arxiv.org/abs/1409.0473"
DANILUK = "https://arxiv.org/abs/1702.04521"
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
    "alignment": entry(alignment, "G9", BAHDANAU),
    "attention_span": entry(attention_span, "G12", DANILUK),
    "causal_mask": entry(causal_mask, "G16", VASWANI),
}

__all__ = ["EXPERIMENTS", "MAX_X", "VASWANI", "CurveSample", "entropy_of", "predict", "sine_and_power"]
