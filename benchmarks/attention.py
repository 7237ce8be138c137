"""Is a score at fused speed? Every score that lowers to dot, against torch's own scaled_dot_product_attention.

Time at (4, 8, 2048, 64) in float32; peak memory as the text grows to 16,384 tokens, also where values and keys differ
in size: linear, where forming the scores is quadratic.
"""

import torch
import torch.nn.functional as F

from benchmarks.harness import Report, compare, peak_memory_mib, save
from regard import MultiHeadAttention, attend
from regard.attention.masks import causal, window
from regard.attention.scores import BiasedGeneral, Cosine, Dot, Gaussian, General, Location, ScaledDot

SHAPE = (4, 8, 2048, 64)
LENGTHS = (4096, 8192, 16384)

MEMORY = """
import torch
from regard import attend
from regard.attention.masks import causal, padding, window
from regard.attention.scores import *
torch.set_grad_enabled({backward})
q, k, v = (torch.randn(1, 1, {length}, size, requires_grad={backward}) for size in (64, 64, {value_size}))
read = attend(q, k, v, score={score}, mask={mask}, return_weights={weights})
if {backward}:
    read.context.sum().backward()
"""


def speed() -> Report:
    """Seconds of each score over those of SDPA, forward."""
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(SHAPE) for _ in range(3))
    scores = {
        "dot": Dot(),
        "scaled_dot": ScaledDot(),
        "general": General(query_size=64, key_size=64),
        "biased_general": BiasedGeneral(query_size=64, key_size=64),
        "cosine": Cosine(),
        "gaussian": Gaussian(width=0.125),
        "location": Location(query_size=64, max_length=SHAPE[2]),
    }
    candidates = {"torch SDPA": lambda: F.scaled_dot_product_attention(queries, keys, values)}
    for name, score in scores.items():
        candidates[name] = lambda score=score: attend(queries, keys, values, score=score)
    with torch.no_grad():
        return compare(f"forward at {SHAPE}, float32", candidates, baseline="torch SDPA", turns=31)


def training() -> Report:
    """The same, forward and backward."""
    torch.manual_seed(0)
    shape = (2, 8, 1024, 64)
    tensors = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    scores = {"scaled_dot": ScaledDot(), "cosine": Cosine(), "gaussian": Gaussian(width=0.125)}
    candidates = {"torch SDPA": lambda: F.scaled_dot_product_attention(*tensors).sum().backward()}
    for name, score in scores.items():
        candidates[name] = lambda score=score: attend(*tensors, score=score).context.sum().backward()
    return compare(f"forward and backward at {shape}, float32", candidates, baseline="torch SDPA", turns=15)


def overhead() -> Report:
    """The overhead of a call on small inputs, as in one step of decoding."""
    short = torch.randn(1, 2, 4, 8)
    states = torch.randn(1, 4, 16)
    heads, theirs = MultiHeadAttention(16, 2), torch.nn.MultiheadAttention(16, 2, batch_first=True)
    calls = {
        "torch SDPA": lambda: F.scaled_dot_product_attention(short, short, short),
        "attend": lambda: attend(short, short, short),
        "attend, causal and window": lambda: attend(short, short, short, mask=causal() & window(2)),
        "torch.nn.MultiheadAttention": lambda: theirs(states, states, states, need_weights=False),
        "MultiHeadAttention": lambda: heads(states),
    }
    # a hundred calls a turn: one alone is too short for a clock
    candidates = {name: lambda call=call: [call() for _ in range(100)] for name, call in calls.items()}
    with torch.no_grad():
        return compare("100 calls on 4 tokens", candidates, baseline="torch SDPA", turns=31)


def memory() -> Report:
    """Peak memory over that of importing the package, by length."""
    cases = {
        "scaled_dot": {"score": "ScaledDot()"},
        "general": {"score": "General(query_size=64, key_size=64)"},
        "cosine": {"score": "Cosine()"},
        "gaussian": {"score": "Gaussian(width=0.125)"},
        "scaled_dot, values of size 24": {"value_size": 24},
        "gaussian, values of size 24": {"score": "Gaussian(width=0.125)", "value_size": 24},
        "causal": {"mask": "causal()"},
        "causal and padding": {"mask": "causal() & padding(torch.tensor([1000]))"},
        "causal and window": {"mask": "causal() & window(256)"},
        "scaled_dot, backward": {"backward": True},
        "causal and window, backward": {"mask": "causal() & window(256)", "backward": True},
        "weights formed": {"weights": True},
    }
    usual = {"score": "ScaledDot()", "mask": "None", "value_size": 64, "weights": False, "backward": False}
    bare = peak_memory_mib("import torch\nfrom regard import attend")
    notes = {}
    for name, case in cases.items():
        # the formed path at 16,384 tokens would need gigabytes, and 8,192 show the same
        lengths = LENGTHS[:2] if name == "weights formed" else LENGTHS
        peaks = [peak_memory_mib(MEMORY.format(length=length, **(usual | case))) - bare for length in lengths]
        peaks_by_length = ", ".join(f"{length}: {peak:.0f} MiB" for length, peak in zip(lengths, peaks, strict=True))
        notes[name] = f"{peaks_by_length} (last doubling x{peaks[-1] / max(peaks[-2], 1.0):.2f})"
    small = torch.randn(1, 1, 512, 64)
    candidates = {"512 tokens": lambda: attend(small, small, small)}
    return compare(f"peak memory at {LENGTHS} tokens, one head", candidates, baseline="512 tokens", notes=notes)


def run() -> list[Report]:
    """All four questions."""
    reports = [speed(), training(), overhead(), memory()]
    save("attention", *reports)
    return reports


if __name__ == "__main__":
    run()
