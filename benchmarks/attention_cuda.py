"""On a GPU: is every lowered score at SDPA's speed, and what does a structured mask cost by each path?"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.harness import Report, compare, device_clock, save
from regard import attend
from regard.attention import which_backend
from regard.attention.masks import causal, padding, window
from regard.attention.scores import Cosine, Gaussian, General, ScaledDot
from regard.contracts import Grid

SHAPE = (4, 16, 4096, 64)
SHAPES = (SHAPE, (4, 16, 4096, 128), (16, 8, 512, 64), (1, 32, 16384, 128))


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
        return compare(
            f"forward at {SHAPE}, bfloat16, one call at a time, the host included",
            candidates,
            baseline="torch SDPA",
            turns=51,
            warmup=5,
        )


def backends() -> list[Report]:
    """`attend` beside every backend of torch's SDPA, causal and full, forward and with the backward pass."""
    return [
        backend_report(shape, is_causal=is_causal, backward=backward)
        for shape in SHAPES
        for is_causal in (False, True)
        for backward in (False, True)
    ]


def backend_report(shape: tuple[int, ...], *, is_causal: bool, backward: bool) -> Report:
    """One shape, one direction."""
    tensors = [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=backward) for _ in range(3)]
    mask = causal() if is_causal else None

    def by(backend: SDPBackend) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*tensors, is_causal=is_causal)

    def finish(run: Callable[[], Tensor]) -> Callable[[], Any]:
        return (lambda: torch.autograd.grad(run(), tensors, grad)) if backward else run

    grad = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    sdpa_backends = {
        backend.name: partial(by, backend) for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)
    }
    gaussian = Gaussian(width=shape[-1] ** -0.5).to("cuda", torch.bfloat16).requires_grad_(False)
    sdpa_backends["attend"] = lambda: attend(*tensors, mask=mask).context
    sdpa_backends["attend, Gaussian"] = lambda: attend(*tensors, mask=mask, score=gaussian).context
    candidates = {name: finish(read) for name, read in sdpa_backends.items()}
    kind = f"{'causal' if is_causal else 'full'}, {'forward and backward' if backward else 'forward'}"
    return compare(
        f"dot attention, {shape}, {kind}, on the device", candidates, baseline="attend", turns=11, warmup=3,
        clock=device_clock,
    )  # fmt: skip


def masks() -> Report:
    """A window and a padded triangle: FlexAttention against the mask written out, forward and backward."""
    tensors = [torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    lengths = torch.tensor([4096, 3000, 2000, 1000], device="cuda")
    rules = {"causal and window(256)": causal() & window(256), "causal and padding": causal() & padding(lengths)}
    candidates, notes = {}, {}
    for name, rule in rules.items():
        matrix = rule.allowed(grid()).expand(-1, 1, -1, -1) if "padding" in name else rule.allowed(grid())
        candidates[f"{name}, written out"] = lambda mask=matrix: (
            F.scaled_dot_product_attention(*tensors, attn_mask=mask).sum().backward()
        )
        candidates[f"{name}, attend"] = lambda mask=rule: attend(*tensors, mask=mask).context.sum().backward()
        notes[name] = str(which_backend(*tensors, mask=rule))
    question = f"forward and backward at {SHAPE}, bfloat16"
    return compare(question, candidates, baseline=next(iter(candidates)), turns=21, warmup=3, notes=notes)


def grid() -> Grid:
    """Positions of the square of SHAPE."""
    return Grid.of((*SHAPE[:3], SHAPE[2]), device=torch.device("cuda"), first_query=0)


def run() -> list[Report]:
    """Both, where there is a GPU."""
    if not torch.cuda.is_available():
        return []
    reports = [speed(), masks(), *backends()]
    save("attention_cuda", *reports)
    return reports


if __name__ == "__main__":
    run()
