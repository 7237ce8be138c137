"""On a GPU: is every lowered score at SDPA's speed, and what does a structured mask cost by each path?"""

import torch
import torch.nn.functional as F

from benchmarks.harness import Report, compare, save
from regard import attend
from regard.attention import explain
from regard.attention.masks import causal, padding, window
from regard.attention.scores import Cosine, Gaussian, General, ScaledDot
from regard.contracts import Grid

SHAPE = (4, 16, 4096, 64)


def speed() -> Report:
    """Each score over SDPA, forward, bfloat16."""
    queries, keys, values = (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    scores = {
        "scaled_dot": ScaledDot(),
        "general": General(query_size=64, key_size=64),
        "cosine": Cosine(),
        "gaussian": Gaussian(width=0.125),
    }
    candidates = {"torch SDPA": lambda: F.scaled_dot_product_attention(queries, keys, values)}
    for name, score in scores.items():
        score.to("cuda", torch.bfloat16)
        candidates[name] = lambda score=score: attend(queries, keys, values, score=score)
    with torch.no_grad():
        return compare(f"forward at {SHAPE}, bfloat16", candidates, baseline="torch SDPA", turns=51, warmup=5)


def masks() -> Report:
    """A window and a padded triangle: FlexAttention against the mask written out, forward and backward."""
    tensors = [torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    lengths = torch.tensor([4096, 3000, 2000, 1000], device="cuda")
    rules = {"causal and window(256)": causal() & window(256), "causal and padding": causal() & padding(lengths)}
    candidates, notes = {}, {}
    for name, rule in rules.items():
        written = rule.allowed(grid()).expand(-1, 1, -1, -1) if "padding" in name else rule.allowed(grid())
        candidates[f"{name}, written out"] = lambda mask=written: (
            F.scaled_dot_product_attention(*tensors, attn_mask=mask).sum().backward()
        )
        candidates[f"{name}, attend"] = lambda mask=rule: attend(*tensors, mask=mask).context.sum().backward()
        notes[name] = str(explain(*tensors, mask=rule))
    question = f"forward and backward at {SHAPE}, bfloat16"
    return compare(question, candidates, baseline=next(iter(candidates)), turns=21, warmup=3, notes=notes)


def grid() -> Grid:
    """Positions of the square of SHAPE."""
    return Grid.of((*SHAPE[:3], SHAPE[2]), device=torch.device("cuda"), first_query=0)


def run() -> list[Report]:
    """Both, where there is a GPU."""
    if not torch.cuda.is_available():
        return []
    reports = [speed(), masks()]
    save("attention_cuda", *reports)
    return reports


if __name__ == "__main__":
    run()
