"""Does a model train as well on sine features as on formed weights? One task, one seed, loss curves side by side.

Random tokens are repeated once, and the second half is predicted: without attention no model is better than chance.
Trained by the sine path, by formed weights in bfloat16, and by formed weights in float32.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.harness import Report, command, machine, save, timing
from regard import MultiHeadAttention
from regard.attention.masks import causal
from regard.attention.scores import Additive

SIZE, HEADS, LAYERS, VOCAB, LENGTH, BATCH, STEPS = 256, 4, 2, 64, 192, 16, 600
EVERY = 30


class Layer(nn.Module):
    """Additive heads and a feed-forward layer, each with its residual."""

    def __init__(self) -> None:
        super().__init__()
        head = SIZE // HEADS
        self.norms = nn.ModuleList(nn.LayerNorm(SIZE) for _ in range(2))
        self.heads = MultiHeadAttention(SIZE, HEADS, score=Additive(query_size=head, key_size=head, hidden_size=head))
        self.feed = nn.Sequential(nn.Linear(SIZE, 4 * SIZE), nn.GELU(), nn.Linear(4 * SIZE, SIZE))

    def forward(self, states: Tensor, form: bool) -> Tensor:
        """The next states."""
        inputs = self.norms[0](states)
        states = states + self.heads(inputs, mask=causal(), return_weights=form).context
        return states + self.feed(self.norms[1](states))


class Repeater(nn.Module):
    """A small causal model."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, SIZE), nn.Embedding(LENGTH, SIZE)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.readout = nn.Linear(SIZE, VOCAB)

    def forward(self, ids: Tensor, form: bool) -> Tensor:
        """Logits of the next token."""
        states = self.words(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            states = layer(states, form)
        return self.readout(states)


def losses(*, form: bool, half: bool) -> list[float]:
    """The training loss, averaged over every few steps."""
    torch.manual_seed(0)
    model = Repeater().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    picks = torch.Generator("cuda").manual_seed(0)
    step_losses: list[Tensor] = []
    for _ in range(STEPS):
        once = torch.randint(VOCAB, (BATCH, LENGTH // 2), generator=picks, device="cuda")
        rows = torch.cat([once, once], dim=1)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half):
            logits = model(rows[:, :-1], form)[:, LENGTH // 2 - 1 :]
        loss = F.cross_entropy(logits.float().flatten(0, 1), rows[:, LENGTH // 2 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step_losses.append(loss.detach())
    return torch.stack(step_losses).view(-1, EVERY).mean(1).tolist()


def run() -> list[Report]:
    """Three trainings, where there is a GPU."""
    if not torch.cuda.is_available():
        return []
    curves = {
        "sine, bfloat16": losses(form=False, half=True),
        "formed, bfloat16": losses(form=True, half=True),
        "formed, float32": losses(form=True, half=False),
    }
    notes: dict[str, Any] = {name: [round(loss, 4) for loss in curve] for name, curve in curves.items()}
    truth = curves["formed, float32"]
    for name in list(curves)[:2]:
        gaps = [abs(one - other) for one, other in zip(curves[name], truth, strict=True)]
        notes[f"largest gap to float32, {name}"] = round(max(gaps), 4)
        notes[f"last gap to float32, {name}"] = round(gaps[-1], 4)
    question = (
        f"training loss of {LAYERS} additive layers on {LENGTH} repeated tokens, mean of every {EVERY} steps, seed 0"
    )
    report = Report(question, machine(), command(), {"none": timing([0.0])}, "none", {}, notes)
    for name, note in notes.items():
        print(name, note)
    save("additive_training", report)
    return [report]


if __name__ == "__main__":
    run()
