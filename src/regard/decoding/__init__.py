"""Search over the Model contract, scoring, alignments as links; generation over LanguageModel. Knows no model class."""

from regard.decoding.beam import Beam
from regard.decoding.decode import decode
from regard.decoding.generate import Generated, Said, generate, stream
from regard.decoding.greedy import Greedy
from regard.decoding.many import decode_all, score_all
from regard.decoding.sampling import Generation, Sample
from regard.decoding.score import forced_alignment, nats_of, pieces, score, score_continuation

__all__ = [
    "Beam",
    "Generated",
    "Generation",
    "Greedy",
    "Said",
    "Sample",
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
