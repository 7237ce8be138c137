"""Inspection: one input, the output for it, and every attention in between, with labelled axes.

A predictor makes it; the studio, `regard show` and `display` draw it. They switch on the kind of an axis and on the
type of a panel, never on the task.

Shapes: Q queries, K keys, T positions of the output.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

AxisKind = Literal["tokens", "grid", "frames"]


@dataclass(frozen=True, kw_only=True)
class Title:
    """A label in both languages."""

    en: str
    zh: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Labelled positions: source tokens, target tokens, the cells of an image, the frames of a sound.

    `marks` are the positions of special tokens such as <eos>, which are no text. An <eos> that is not among them is
    text: the end of a line. `texts` are the characters of the text that each position was encoded from, as the user
    wrote them, '' for a special token; it is empty if the positions were predicted. `unknown` are the positions of
    <unk>.
    """

    name: str
    kind: AxisKind
    title: Title
    labels: tuple[str, ...]
    marks: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    unknown: tuple[int, ...] = ()
    grid: tuple[int, int] | None = None
    """Rows and columns, of a grid."""
    is_stepwise: bool = False
    """Positions are computed one after another, as those of an output are; a page can play them."""


@dataclass(frozen=True, kw_only=True)
class AttentionSite:
    """One attention inside the model, by its module path, and how its maps lie on the axes."""

    path: str
    query_axis: str
    key_axis: str
    num_heads: int
    score: str
    alignment: str
    is_causal: bool = False
    """Queries never attend to later keys, so another mask must not let them."""
    is_stepwise: bool = False
    """Each query is a call of its own."""
    keys_end_at_query: bool = False
    """The last key of each map is the one before (stepwise) or at the last query: a window, or a memory that grows."""
    key_memories: bool = False
    """Each call has keys of its own, such as the growing tape of an LSTMN."""
    numbers_per_key: int = 0
    """Of key and value together, in all heads: what one key costs in memory."""

    @property
    def is_cross(self) -> bool:
        """Queries and keys lie on different axes."""
        return self.query_axis != self.key_axis


@dataclass(frozen=True, kw_only=True)
class AlignmentPanel:
    """The model's own alignment between output and source (`Step.weights`)."""

    name: ClassVar[str] = "alignment"
    weights: Float[Tensor, "T K"]
    query_axis: str
    key_axis: str


@dataclass(frozen=True, kw_only=True)
class NextTokenPanel:
    """What a language model predicts after every token; the first token itself has no prediction.

    `tokens_of` gives the labels of vocabulary ids. `code` is a Python expression for these logits, see `ModelCall`.
    """

    name: ClassVar[str] = "next_token"
    logits: Float[Tensor, "T vocab"]
    ids: tuple[int, ...]
    # in nats, None at the first token; ranks count from 1
    log_probs: tuple[float | None, ...]
    ranks: tuple[int | None, ...]
    perplexity: float | None
    axis: str
    tokens_of: Callable[[Sequence[int]], list[str]] = field(repr=False)
    code: str | None = None


@dataclass(frozen=True, kw_only=True)
class StatePart:
    """One tensor of a model's state: its shape at the end, and its bytes after each token."""

    name: str
    shape: tuple[int, ...]
    # one entry per token, so that growth can be drawn
    num_bytes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class StatePanel:
    """How the state of a model grows with the text, in bytes: allocated by its tensors, and filled."""

    name: ClassVar[str] = "state"
    at_start: int
    allocated: tuple[int, ...]
    filled: tuple[int, ...]
    parts: tuple[StatePart, ...]
    axis: str


@dataclass(frozen=True, kw_only=True)
class ClassesPanel:
    """Logits and probabilities of all classes, in the order of the model's outputs.

    `titles` are the names of the labels, if the classes have any. `site` is the attention whose query rows explain the
    class, if the model has one, and `weights` are its rows.
    """

    name: ClassVar[str] = "classes"
    labels: tuple[str, ...]
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    titles: tuple[Title, ...] = ()
    site: str | None = None
    weights: Float[Tensor, "Q K"] | None = None


Panel = AlignmentPanel | NextTokenPanel | StatePanel | ClassesPanel


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """Python code that repeats the forward pass of an inspection, given `model`.

    `inputs` are statements that write out the inputs (torch and `PaddedTokens` are imported), `call` is an expression.
    """

    inputs: str
    call: str


@dataclass(frozen=True, kw_only=True)
class Response:
    """The output computed again, usually under an intervention, and how probable the first output is there."""

    output: str
    tokens: tuple[str, ...]
    log_prob: float
    log_prob_of_first: float


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a predictor computed for one input, and every attention of it.

    `forced` says that the output was given by the user, not predicted. `log_prob` is that of the output, in nats.
    `response` is what `Predictor.respond` gives without an intervention, where it is already known. `call` is left out
    where the forward pass cannot be repeated from the checkpoint. `tokens` is what the predictor needs to compute the
    same again, opaque to everyone else.
    """

    input: str
    output: str
    forced: bool
    log_prob: float
    axes: tuple[Axis, ...]
    sites: tuple[AttentionSite, ...]
    maps: Mapping[str, tuple[Any, ...]]
    """Module path -> the attention maps recorded there, in order (`AttentionMap`)."""
    panels: tuple[Panel, ...] = ()
    unknown: tuple[str, ...] = ()
    """Parts of the input that the vocabulary does not know, each once."""
    num_dropped: int = 0
    """Tokens of the input that were left out because it is too long."""
    drops_start: bool = False
    """They are the first ones, as in a language model, whose continuation depends on the last; otherwise the last."""
    response: Response | None = None
    call: ModelCall | None = None
    tokens: Any = field(default=None, repr=False)
    seconds: float = 0.0
    seconds_per_token: float | None = None

    def axis(self, name: str) -> Axis:
        """The axis of this name."""
        axis = next((axis for axis in self.axes if axis.name == name), None)
        if axis is None:
            raise ValueError(f"there is no axis {name!r}; there is {', '.join(axis.name for axis in self.axes)}.")
        return axis

    def site(self, path: str) -> AttentionSite | None:
        """The attention at a module path, if there is one."""
        return next((site for site in self.sites if site.path == path), None)

    def panel(self, kind: type) -> Any:
        """The panel of a type, None if the inspection has none."""
        return next((panel for panel in self.panels if isinstance(panel, kind)), None)
