"""Worked examples as models: one attention over fixed vectors, without training.

The vectors are those of the lessons, so that Watch, Compute and Swap show what Learn explains.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention, trace
from regard.attention.masks import ComposableMask, causal
from regard.attention.scores import Dot, Gaussian, ScaledDot
from regard.contracts import Around, Capabilities, Description, Inspection, Response, Score, Title
from regard.studio.lessons import apple, cues, journey, kernel_fit
from regard.studio.lessons.blocks import make_generator
from regard.studio.model_registry import ModelRegistry, RegisteredModel
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.models import ModelCard
from regard.tasks import describe_site, token_axis

PREFIX = "example:"
TASK = "worked_example"
TASK_TITLE = LocalizedText(en="Worked examples", zh="例题")
CAPABILITIES = Capabilities(responds=False)
KEYS, QUERIES = "keys", "queries"
TITLES = {KEYS: Title(en="keys", zh="键"), QUERIES: Title(en="queries", zh="查询")}
WORDS = Title(en="words", zh="词")
DESCRIPTION = Description(
    reads=Title(en="the fixed vectors of a worked example", zh="例题的固定向量"),
    writes=Title(en="their attention weights", zh="它们的注意力权重"),
)


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """The inputs of one attention; without `query_tokens` the queries are the words of the keys."""

    keys: Float[Tensor, "K key"]
    values: Float[Tensor, "K value"]
    key_tokens: tuple[str, ...]
    queries: Float[Tensor, "Q key"]
    query_tokens: tuple[str, ...] | None = None
    score: Score
    mask: ComposableMask | None = None


class ExampleModel(nn.Module):
    """One attention."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.attention = Attention(score)

    def forward(self, vectors: Vectors) -> Float[Tensor, "1 Q value"]:
        # a batch of one
        memory = self.attention.prepare_memory(vectors.keys[None], vectors.values[None])
        context: Tensor = self.attention(vectors.queries[None], memory, mask=vectors.mask).context
        return context


@dataclass(frozen=True, kw_only=True)
class WorkedExample:
    """A predictor with a fixed input and without an output."""

    title: str
    make: Callable[[], Vectors]
    # there is no training, but a Predictor has a `run`
    run: None = field(default=None, init=False)

    @cached_property
    def vectors(self) -> Vectors:
        return self.make()

    @cached_property
    def model(self) -> ExampleModel:
        return ExampleModel(self.vectors.score)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def text(self) -> str:
        return " ".join(self.vectors.key_tokens)

    def parse(self, data: str | bytes) -> str:
        """The words of the example, for any input."""
        return self.text

    def samples(self) -> list[str]:
        return [self.text]

    @property
    def description(self) -> Description:
        return DESCRIPTION

    def unknown_in(self, text: str, *, is_output: bool = False) -> list[str]:
        """Nothing, because a worked example has no vocabulary."""
        return []

    def inspect(self, data: str, output: str | None = None, *, max_numbers: int | None = None) -> Inspection:
        """The one attention; without query tokens the queries are on the axis of the keys."""
        if output is not None:
            raise ValueError("a worked example has no output. Leave it out.")
        vectors = self.vectors
        with torch.inference_mode(), trace(self.model) as maps:
            self.model(vectors)
        title = WORDS if vectors.query_tokens is None else TITLES[KEYS]
        axes = [token_axis(KEYS, title, vectors.key_tokens)]
        if vectors.query_tokens is not None:
            axes.append(token_axis(QUERIES, TITLES[QUERIES], vectors.query_tokens))
        # the axis of the queries if there is one, else that of the keys
        sites = (describe_site(path, steps, query_axis=axes[-1].name, key_axis=KEYS) for path, steps in maps.items())
        return Inspection(
            input=self.text,
            output="",
            forced=False,
            log_prob=0.0,
            axes=tuple(axes),
            sites=tuple(sites),
            maps=dict(maps.items()),
        )

    def respond(self, inspection: Inspection, around: Around) -> Response:
        """Worked examples have no output."""
        raise ValueError("a worked example has no output. Choose a model that was trained.")


def add_examples(registry: ModelRegistry) -> None:
    for name, example in EXAMPLES.items():
        # without a folder: the example is in memory
        model = RegisteredModel(name=name, predictor=example, capabilities=CAPABILITIES, fixed_input=True)
        registry.add(model, card_of(name, example))


def card_of(name: str, example: WorkedExample) -> ModelCard:
    """The card of an example."""
    return ModelCard(
        name=name,
        task=TASK,
        task_title=TASK_TITLE,
        verb="inspect",
        input="text",
        takes_output=False,
        streams=False,
        multiline=False,
        responds=False,
        fixed_input=True,
        system="example",
        title=example.title,
        year=0,
        attends=True,
        parameters=0,
        recipe="example",
        languages=[],
        reads=LocalizedText.of(DESCRIPTION.reads),
        writes=LocalizedText.of(DESCRIPTION.writes),
        parts=None,
        tokens="words",
        steps=0,
        samples=[example.text],
        quality=None,
    )


def make_journey() -> Vectors:
    """Words attend to themselves and the words before."""
    # the default seed of the lesson
    words = torch.randn(len(journey.WORDS), journey.SIZE, generator=make_generator(0))
    return Vectors(queries=words, keys=words, values=words, key_tokens=journey.WORDS, score=ScaledDot(), mask=causal())


def make_apple() -> Vectors:
    """Queries with the scores of the lesson; the values are one-hot words."""
    words = torch.eye(len(apple.WORDS))
    # keys are one-hot, so that a dot product with a query selects one of its entries
    return Vectors(
        queries=apple.scores_of(1.0), keys=words, values=words, key_tokens=apple.WORDS, score=Dot(), mask=causal()
    )


def make_cues() -> Vectors:
    """Objects on a desk, queried without and with the intention to read."""
    # without and with the intention to read: w = 0 and w = 2
    queries = torch.tensor([[1.0, 0.0], [1.0, 2.0]])
    return Vectors(
        queries=queries, query_tokens=("w = 0", "w = 2"), keys=cues.KEYS, values=cues.VALUES,
        key_tokens=tuple(f"{one.en} {one.zh}" for one in cues.OBJECTS), score=Dot(),
    )  # fmt: skip


def make_kernel_fit() -> Vectors:
    """Every fourth sample point, queried at four positions."""
    # a fourth of the points, so that the table of keys stays readable
    sample = kernel_fit.draw(0)
    every_fourth = slice(None, None, 4)
    points, values = sample.x[every_fourth], sample.y[every_fourth]
    positions = torch.tensor([0.5, 2.0, 3.5, 4.5])
    return Vectors(
        # (Q, 1): a position is a vector of one number
        queries=positions[:, None], query_tokens=tuple(f"x = {point:g}" for point in positions.tolist()),
        keys=points, values=values, key_tokens=tuple(f"{point:.2f}" for point in points[:, 0].tolist()),
        score=Gaussian(width=2.0),
    )  # fmt: skip


EXAMPLES = {
    PREFIX + name: WorkedExample(title=title, make=make)
    for name, title, make in (
        ("journey", "Your journey starts 你的旅程开始了", make_journey),
        ("apple", "I ate an apple 我吃了一个苹果", make_apple),
        ("cues", "Paper or coffee 纸还是咖啡", make_cues),
        ("kernel_fit", "y = 2 sin x + x^0.8", make_kernel_fit),
    )
}
