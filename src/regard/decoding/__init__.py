"""Search over the Model contract, scoring, alignments as links; generation over LanguageModel. Knows no model class."""

from regard.contracts import device_of, evaluating
from regard.decoding.beam import Beam
from regard.decoding.choices import Generation
from regard.decoding.decode import decode
from regard.decoding.generate import Generated, Said, generate, stream
from regard.decoding.greedy import Greedy
from regard.decoding.hypothesis import Hypothesis, Limit, Search, Task
from regard.decoding.links import Link, best_links, from_pharaoh, links, merge_words, to_pharaoh
from regard.decoding.many import decode_all, score_all
from regard.decoding.sample import Sample
from regard.decoding.score import forced_alignment, nats_of, pieces, score, score_continuation

__all__ = [
    "Beam",
    "Generated",
    "Generation",
    "Greedy",
    "Hypothesis",
    "Limit",
    "Link",
    "Said",
    "Sample",
    "Search",
    "Task",
    "best_links",
    "decode",
    "decode_all",
    "device_of",
    "evaluating",
    "forced_alignment",
    "from_pharaoh",
    "generate",
    "links",
    "merge_words",
    "nats_of",
    "pieces",
    "score",
    "score_all",
    "score_continuation",
    "stream",
    "to_pharaoh",
]
