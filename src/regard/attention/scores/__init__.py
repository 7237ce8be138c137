"""Scores: how well each key matches each query. In history order."""

from regard.attention.scores.additive import Additive, Concat
from regard.attention.scores.dot import Cosine, Dot, ScaledDot
from regard.attention.scores.gaussian import Gaussian
from regard.attention.scores.general import ActivatedGeneral, BiasedGeneral, General
from regard.attention.scores.location import Location
from regard.attention.scores.with_bias import Biased
from regard.contracts import MechanismEntry

LUONG = "https://arxiv.org/abs/1508.04025"

# Q queries, K keys, d their size, h hidden units
SCORES = {
    "gaussian": MechanismEntry(
        build=Gaussian,
        year=1964,
        formula="-1/2 |w (q - k)|^2",
        cost="O(QKd), fused",
        paper="https://doi.org/10.1137/1109020",
    ),
    "additive": MechanismEntry(
        build=Additive,
        year=2014,
        formula="v . tanh(W q + U k)",
        cost="O(QKh), fused",
        paper="https://arxiv.org/abs/1409.0473",
    ),
    "cosine": MechanismEntry(
        build=Cosine,
        year=2014,
        formula="scale q . k / (|q| |k|)",
        cost="O(QKd), fused",
        paper="https://arxiv.org/abs/1410.5401",
    ),
    "dot": MechanismEntry(build=Dot, year=2015, formula="q . k", cost="O(QKd), fused", paper=LUONG),
    "general": MechanismEntry(build=General, year=2015, formula="q W k", cost="O(QKd), fused", paper=LUONG),
    "concat": MechanismEntry(build=Concat, year=2015, formula="v . tanh(W [q; k])", cost="O(QKh), fused", paper=LUONG),
    "location": MechanismEntry(build=Location, year=2015, formula="(W q)_j", cost="O(QKd), fused", paper=LUONG),
    "biased_general": MechanismEntry(
        build=BiasedGeneral,
        year=2016,
        formula="k . (W q + b)",
        cost="O(QKd), fused",
        paper="https://arxiv.org/abs/1606.02245",
    ),
    "activated_general": MechanismEntry(
        build=ActivatedGeneral,
        year=2017,
        formula="act(q W k + b)",
        cost="O(QKd), forms QK",
        paper="https://arxiv.org/abs/1709.00893",
    ),
    "scaled_dot": MechanismEntry(
        build=ScaledDot,
        year=2017,
        formula="q . k / sqrt(d)",
        cost="O(QKd), fused",
        paper="https://arxiv.org/abs/1706.03762",
    ),
}

__all__ = [
    "LUONG",
    "SCORES",
    "ActivatedGeneral",
    "Additive",
    "Biased",
    "BiasedGeneral",
    "Concat",
    "Cosine",
    "Dot",
    "Gaussian",
    "General",
    "Location",
    "ScaledDot",
]
