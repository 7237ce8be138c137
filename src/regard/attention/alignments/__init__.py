"""Alignments: scores to weights over the allowed keys. In history order."""

from regard.attention.alignments.diagonal import Diagonal
from regard.attention.alignments.fixed import Random, Uniform
from regard.attention.alignments.hard import Argmax, Gumbel, Hard, Sampled
from regard.attention.alignments.local import LocalMonotonic, LocalPredictive
from regard.attention.alignments.monotonic import Monotonic
from regard.attention.alignments.ratio import Ratio
from regard.attention.alignments.sigmoid import Sigmoid
from regard.attention.alignments.softmax import Softmax
from regard.attention.alignments.sparse import Entmax, Sparsemax
from regard.contracts import MechanismEntry

LUONG = "https://arxiv.org/abs/1508.04025"
XU = "https://arxiv.org/abs/1502.03044"


def hard_gumbel() -> Hard:
    """Hard attention with a straight-through Gumbel sample."""
    return Hard(Gumbel())


def hard_sampled() -> Hard:
    """Hard attention with a sample and its log-probability, for REINFORCE."""
    return Hard(Sampled())


# costs are per query, K is the number of keys
ALIGNMENTS = {
    "ratio": MechanismEntry(
        build=Ratio, year=1964, formula="f_j / sum f", cost="O(K)", paper="https://doi.org/10.1137/1109020"
    ),
    "softmax": MechanismEntry(
        build=Softmax,
        year=1990,
        formula="exp(s_j) / sum exp(s)",
        cost="O(K), fused",
        paper="https://doi.org/10.1007/978-3-642-76153-9_28",
    ),
    "diagonal": MechanismEntry(
        build=Diagonal,
        year=2013,
        formula="exp(-(j - t S/T)^2 / 2 spread^2), normalised",
        cost="O(K)",
        paper="https://aclanthology.org/N13-1073",
    ),
    "hard": MechanismEntry(build=Hard, year=2015, formula="one_hot(argmax s)", cost="O(K)", paper=XU),
    "hard_sampled": MechanismEntry(
        build=hard_sampled, year=2015, formula="one_hot(j ~ softmax s)", cost="O(K)", paper=XU
    ),
    "local_monotonic": MechanismEntry(
        build=LocalMonotonic, year=2015, formula="softmax over |j - t| <= D", cost="O(K)", paper=LUONG
    ),
    "local_predictive": MechanismEntry(
        build=LocalPredictive,
        year=2015,
        formula="softmax over |j - p| <= D, times exp(-(j - p)^2 / 2 (D/2)^2)",
        cost="O(K)",
        paper=LUONG,
    ),
    "sparsemax": MechanismEntry(
        build=Sparsemax,
        year=2016,
        formula="argmin_p |p - s|^2",
        cost="O(K log K)",
        paper="https://arxiv.org/abs/1602.02068",
    ),
    "hard_gumbel": MechanismEntry(
        build=hard_gumbel,
        year=2016,
        formula="one_hot(argmax(s + gumbel)), soft gradient",
        cost="O(K)",
        paper="https://arxiv.org/abs/1611.01144",
    ),
    "monotonic": MechanismEntry(
        build=Monotonic,
        year=2017,
        formula="p_j q_j, q_j = (1 - p_j-1) q_j-1 + weights_t-1,j, p = sigmoid(s)",
        cost="O(K log K)",
        paper="https://arxiv.org/abs/1704.00784",
    ),
    "entmax": MechanismEntry(
        build=Entmax,
        year=2019,
        formula="argmax_p p . s + H_alpha(p)",
        cost="O(K log K)",
        paper="https://arxiv.org/abs/1905.05702",
    ),
    "uniform": MechanismEntry(
        build=Uniform,
        year=2019,
        formula="1 / number of allowed keys",
        cost="O(K)",
        paper="https://arxiv.org/abs/1908.04626",
    ),
    "random": MechanismEntry(
        build=Random,
        year=2020,
        formula="e_tj / sum e, e ~ Exponential(1) fixed by seed, t and j",
        cost="O(K)",
        paper="https://arxiv.org/abs/2005.00743",
    ),
    "sigmoid": MechanismEntry(
        build=Sigmoid,
        year=2024,
        formula="1 / (1 + exp(-s_j - b))",
        cost="O(K)",
        paper="https://arxiv.org/abs/2409.04431",
    ),
}

__all__ = [
    "ALIGNMENTS",
    "LUONG",
    "XU",
    "Argmax",
    "Diagonal",
    "Entmax",
    "Gumbel",
    "Hard",
    "LocalMonotonic",
    "LocalPredictive",
    "Monotonic",
    "Random",
    "Ratio",
    "Sampled",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "Uniform",
    "hard_gumbel",
    "hard_sampled",
]
