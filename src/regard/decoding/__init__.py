"""Greedy search, beam search, sampling, scoring and text generation, for any model of the protocols."""

from regard.decoding.beam import Beam
from regard.decoding.decode import decode, decode_all, score_all
from regard.decoding.generate import Generated, TokenOutput, generate, stream
from regard.decoding.greedy import Greedy
from regard.decoding.sampling import Generation, Sampling
from regard.decoding.score import forced_alignment, nats_of, pieces, score, score_continuation

__all__ = [
    "Beam",
    "Generated",
    "Generation",
    "Greedy",
    "Sampling",
    "TokenOutput",
    "decode",
    "decode_all",
    "forced_alignment",
    "generate",
    "nats_of",
    "pieces",
    "score",
    "score_all",
    "score_continuation",
    "stream",
]
