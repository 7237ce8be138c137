"""Statistics of attention weights."""

from regard.analysis.heads import diagonal_mass, entropy, mean_distance, mean_over_active

__all__ = [
    "diagonal_mass",
    "entropy",
    "mean_distance",
    "mean_over_active",
]
