"""Position schemes, in history order. The first two are added to states, the others work inside the heads."""

from regard.attention.positions.absolute import Learned, Sinusoidal
from regard.attention.positions.alibi import Alibi
from regard.attention.positions.relative import Relative
from regard.attention.positions.rotary import Rotary
from regard.contracts import MechanismEntry

POSITIONS = {
    "learned": MechanismEntry(
        build=Learned, year=2017, formula="x_t + E[t]", cost="O(Ld)", paper="https://arxiv.org/abs/1705.03122"
    ),
    "sinusoidal": MechanismEntry(
        build=Sinusoidal,
        year=2017,
        formula="x_t + [sin, cos](t / 10000^(2i/d))",
        cost="O(Ld)",
        paper="https://arxiv.org/abs/1706.03762",
    ),
    "relative": MechanismEntry(
        build=Relative,
        year=2018,
        formula="q . (k + a_{j-i}) / sqrt(d), v + b_{j-i}",
        cost="O(QKd), forms QK",
        paper="https://arxiv.org/abs/1803.02155",
    ),
    "rotary": MechanismEntry(
        build=Rotary,
        year=2021,
        formula="R(i) q . R(j) k",
        cost="O(Ld), fused",
        paper="https://arxiv.org/abs/2104.09864",
    ),
    "alibi": MechanismEntry(
        build=Alibi,
        year=2021,
        formula="s - m |i - j|",
        cost="O(HQK), fused, writes HQK",
        paper="https://arxiv.org/abs/2108.12409",
    ),
}

__all__ = ["POSITIONS", "Alibi", "Learned", "Relative", "Rotary", "Sinusoidal"]
