"""Common claims about attention, each tested: a table, a figure and a computed verdict."""

from types import ModuleType

from regard.experiments import (
    alignment,
    attention_span,
    bottleneck,
    causal_mask,
    cost,
    directions,
    distance,
    dot_against_cosine,
    dynamic_weights,
    embedding_scale,
    feed_forward,
    gradients,
    heads_specialise,
    ngram_tables,
    one_state_three_rules,
    own_outputs,
    parallelism,
    permutation,
    pooling,
    scaling,
    score_cost,
    separate_values,
    shift,
)
from regard.experiments.lib.finding import Experiment
from regard.experiments.pooling import MAX_X, CurveSample, predict, sine_and_power
from regard.experiments.scaling import entropy_of

VASWANI = "https://arxiv.org/abs/1706.03762"

BAHDANAU = "https://arxiv.org/abs/1409.0473"
DANILUK = "https://arxiv.org/abs/1702.04521"
VOITA = "https://arxiv.org/abs/1905.09418"
SYNTHESIZER = "https://arxiv.org/abs/2005.00743"
ISLAM = "https://arxiv.org/abs/2001.08248"
KNESER_NEY = "https://doi.org/10.1109/ICASSP.1995.479394"
TTT_PAPER = "https://arxiv.org/abs/2407.04620"
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
    "cost": entry(cost, "G10", VASWANI),
    "heads_specialise": entry(heads_specialise, "G11", VOITA),
    "attention_span": entry(attention_span, "G12", DANILUK),
    "one_state_three_rules": entry(one_state_three_rules, "G13", TTT_PAPER),
    "own_outputs": entry(own_outputs, "G15", "https://arxiv.org/abs/1506.03099"),
    "causal_mask": entry(causal_mask, "G16", VASWANI),
    "dot_against_cosine": entry(dot_against_cosine, "G17", VASWANI),
    "dynamic_weights": entry(dynamic_weights, "G18", SYNTHESIZER),
    "directions": entry(directions, "G19", "https://doi.org/10.1109/78.650093"),
    "feed_forward": entry(feed_forward, "G20", VASWANI),
    "ngram_tables": entry(ngram_tables, "G22", KNESER_NEY),
    "separate_values": entry(separate_values, "G23", VASWANI),
    "score_cost": entry(score_cost, "G24", VASWANI),
    "shift": entry(shift, "G25", ISLAM),
}

__all__ = ["EXPERIMENTS", "MAX_X", "VASWANI", "CurveSample", "entropy_of", "predict", "sine_and_power"]
