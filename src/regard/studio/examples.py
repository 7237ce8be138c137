"""Worked examples as systems on the shelf: one attention over fixed vectors, there before anything is trained.

They are the lessons' own vectors, so that Compute, Swap and Watch can take apart what Learn explains.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention, AttentionMap, trace
from regard.attention.masks import Rule, causal
from regard.attention.scores import Dot, Gaussian, ScaledDot
from regard.contracts import Score
from regard.studio.lessons import apple, cues, journey, kernel_fit
from regard.studio.lessons.parts import chance
from regard.studio.schema import ModelCard, SiteKind
from regard.studio.sites import SiteFacts, name_of

PREFIX = "example:"
SITE = "attention"


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """What one attention compares and reads; without tokens of their own the queries are the keys' words."""

    keys: Float[Tensor, "K key"]
    values: Float[Tensor, "K value"]
    key_tokens: tuple[str, ...]
    queries: Float[Tensor, "Q key"]
    query_tokens: tuple[str, ...] | None = None
    score: Score
    mask: Rule | None = None


@dataclass(frozen=True, kw_only=True)
class Worked:
    """An example on the shelf."""

    name: str
    title: str
    make: Callable[[], Vectors]
    version: str = "1"
    folder: None = None
    vectors: Vectors = field(init=False)
    sites: dict[str, SiteFacts] = field(init=False)

    def __post_init__(self) -> None:
        # frozen, but for what follows from the rest
        object.__setattr__(self, "vectors", self.make())
        kind: SiteKind = "source" if self.vectors.query_tokens is None else "cross"
        facts = SiteFacts(
            kind=kind, heads=1, score=name_of(self.vectors.score), align="softmax", numbers_per_key=0, is_tape=False
        )
        object.__setattr__(self, "sites", {SITE: facts})

    @property
    def text(self) -> str:
        """Its words."""
        return " ".join(self.vectors.key_tokens)

    def read(self) -> dict[str, tuple[AttentionMap, ...]]:
        """The one read that it makes."""
        model = nn.Module()
        model.attention = Attention(self.vectors.score)
        given = self.vectors
        with torch.inference_mode(), trace(model) as maps:
            memory = model.attention.remember(given.keys[None], given.values[None])
            model.attention(given.queries[None], memory, mask=given.mask)
        return dict(maps.items())

    def card(self) -> ModelCard:
        """As the page lists it."""
        return ModelCard(
            name=self.name,
            kind="example",
            system="example",
            title=self.title,
            year=0,
            attends=True,
            parameters=0,
            recipe="example",
            languages=[],
            tokens="words",
            steps=0,
            examples=[self.text],
            quality=None,
            example=True,
        )


def make_journey() -> Vectors:
    """Words read themselves and what came before."""
    words = torch.randn(len(journey.WORDS), journey.SIZE, generator=chance(0))
    return Vectors(queries=words, keys=words, values=words, key_tokens=journey.WORDS, score=ScaledDot(), mask=causal())


def make_apple() -> Vectors:
    """Queries that score each word as the example does; the values are the words themselves."""
    words = torch.eye(len(apple.WORDS))
    return Vectors(
        queries=apple.scores_of(1.0), keys=words, values=words, key_tokens=apple.WORDS, score=Dot(), mask=causal()
    )


def make_cues() -> Vectors:
    """A desk, looked at without a wish and with one."""
    queries = torch.tensor([[1.0, 0.0], [1.0, 2.0]])
    return Vectors(
        queries=queries, query_tokens=("w = 0", "w = 2"), keys=cues.KEYS, values=cues.VALUES,
        key_tokens=cues.OBJECTS, score=Dot(),
    )  # fmt: skip


def make_kernel_fit() -> Vectors:
    """A dozen of the known points, asked at four places."""
    sample = kernel_fit.draw(0)
    known = slice(None, None, 4)
    points, values = sample.x[known], sample.y[known]
    asked = torch.tensor([0.5, 2.0, 3.5, 4.5])
    return Vectors(
        queries=asked[:, None], query_tokens=tuple(f"x = {place:g}" for place in asked.tolist()),
        keys=points, values=values, key_tokens=tuple(f"{place:.2f}" for place in points[:, 0].tolist()),
        score=Gaussian(width=2.0),
    )  # fmt: skip


EXAMPLES = {
    PREFIX + name: Worked(name=PREFIX + name, title=title, make=make)
    for name, title, make in (
        ("journey", "Your journey starts", make_journey),
        ("apple", "我吃了一个苹果", make_apple),
        ("cues", "Paper or coffee 纸还是咖啡", make_cues),
        ("kernel_fit", "y = 2 sin x + x^0.8", make_kernel_fit),
    )
}
