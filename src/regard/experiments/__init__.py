"""Common claims about attention, each tested: a table, a figure and a computed verdict."""

from regard.experiments import attention_span, causal_mask, embedding_scale, permutation, pooling, scaling
from regard.experiments.lib.finding import Experiment
from regard.experiments.pooling import MAX_X, CurveSample, predict, sine_and_power
from regard.experiments.scaling import entropy_of

VASWANI = "https://arxiv.org/abs/1706.03762"

EXPERIMENTS = {
    "pooling": Experiment(run=pooling.run, number="G1", claim=pooling.CLAIM, paper="https://doi.org/10.1137/1109020"),
    "scaling": Experiment(run=scaling.run, number="G2", claim=scaling.CLAIM, paper=VASWANI),
    "embedding_scale": Experiment(run=embedding_scale.run, number="G3", claim=embedding_scale.CLAIM, paper=VASWANI),
    "permutation": Experiment(run=permutation.run, number="G4", claim=permutation.CLAIM, paper=VASWANI),
    "attention_span": Experiment(
        run=attention_span.run, number="G12", claim=attention_span.CLAIM, paper="https://arxiv.org/abs/1702.04521"
    ),
    "causal_mask": Experiment(run=causal_mask.run, number="G16", claim=causal_mask.CLAIM, paper=VASWANI),
}

__all__ = ["EXPERIMENTS", "MAX_X", "VASWANI", "CurveSample", "entropy_of", "predict", "sine_and_power"]
