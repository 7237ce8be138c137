"""Generation on a GPU: the whole step of one token as a captured CUDA graph, replayed for every token.

A step is about twenty small kernels a layer, and launching them takes longer than running them. A graph is launched
once.

    ids[length] = token;  keys[length], values[length] = those of the token
    attend to the positions up to length, out of a preallocated capacity;  length = length + 1

A graph has one shape and fixed addresses, so keys and values lie in buffers, and a mask by the length hides those that
are not filled. The length is on the device: the host never waits for it between two tokens.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from threading import Lock
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import GrowingCache
from regard.contracts import Cache, mode_reasons
from regard.fused.transformer_layers import attend, causal_layer_outputs, normalize, project_all
from regard.layers import CausalLayer
from regard.models.language_modeling import GPT, State

MULTIPLE = 64
"""Capacities are rounded up to a multiple of this, so that texts of similar lengths share a graph."""
WARM_UP = 3
"""Steps before one is captured."""
MAX_IDLE = 2
"""Graphs of a model that are kept between texts."""

Signature = list[tuple[Any, ...]]
"""Address, shape, stride and dtype of every parameter."""


class DecodeGraph:
    """The buffers of one step and its graph. It holds no reference to the model, whose weights it reads in place."""

    def __init__(self, model: GPT, num_rows: int, capacity: int) -> None:
        weight, attention = model.embedding.weight, cast(CausalLayer, model.layers[0]).attention
        integers: dict[str, Any] = {"device": weight.device, "dtype": torch.int64}
        shape = (len(model.layers), num_rows, attention.num_heads, capacity, attention.head_size)
        # a tensor of inference mode cannot be written outside of it
        with torch.inference_mode(False):
            # zeros, not uninitialised memory: attention spans the whole capacity, and NaN would spread through the mask
            self.keys, self.values = (torch.zeros(shape, device=weight.device, dtype=weight.dtype) for _ in range(2))
            self.tokens, self.ids = torch.zeros(num_rows, **integers), torch.zeros(num_rows, capacity, **integers)
            self.length, self.columns = torch.zeros(1, **integers), torch.arange(capacity, device=weight.device)
        self.graph: Any = None
        self.logits: Tensor | None = None
        self.signature: Signature = []

    @property
    def capacity(self) -> int:
        """How many positions fit."""
        return self.ids.shape[1]

    def fits(self, model: GPT, num_rows: int, capacity: int) -> bool:
        """Whether the buffers are those of such a step."""
        weight = model.embedding.weight
        buffers = (self.ids.shape, self.keys.device, self.keys.dtype)
        return buffers == ((num_rows, capacity), weight.device, weight.dtype)

    def load(self, caches: Sequence[Cache], ids: Int[Tensor, "B K"]) -> None:
        """Continue after these tokens."""
        length = ids.shape[1]
        self.ids[:, :length] = ids
        self.length.fill_(length)
        for number, cache in enumerate(caches):
            if cache.keys is not None and cache.values is not None:
                # copied in place, since the graph has the buffers' addresses
                self.keys[number, :, :, :length] = cache.keys
                self.values[number, :, :, :length] = cache.values

    def state(self, length: int) -> State:
        """The first positions of the buffers as a state of the model."""
        # copies: the buffers are used again by the next text
        keys, values = self.keys[:, :, :, :length].clone(), self.values[:, :, :, :length].clone()
        caches = [GrowingCache().append(*both) for both in zip(keys, values, strict=True)]
        return State(caches=tuple(caches), ids=self.ids[:, :length].clone())

    def step(self, model: GPT, tokens: Int[Tensor, " B"], signature: Signature) -> Float[Tensor, "B vocab"]:
        """Logits after one more token; the next step overwrites them. `signature` is that of the model now."""
        # the graph reads its input from this address
        self.tokens.copy_(tokens)
        if not self.tokens.is_cuda:
            return self.compute(model)
        # replaced parameters have other addresses, so a new graph is captured; edits in place need none
        if self.graph is None or self.signature != signature:
            self.capture(model)
            self.signature = signature
        self.graph.replay()
        assert self.logits is not None
        return self.logits

    def compute(self, model: GPT) -> Float[Tensor, "B vocab"]:
        """One step over the buffers."""
        # (1, 1, 1, capacity): position `length` is the token's own, and later ones are not filled
        bias = torch.zeros(self.capacity, dtype=self.keys.dtype, device=self.columns.device)
        bias = bias.masked_fill(self.columns > self.length, float("-inf")).view(1, 1, 1, -1)
        self.ids.index_copy_(1, self.length, self.tokens[:, None])
        words = F.embedding(self.tokens, model.embedding.weight)
        # positions take (B, 1, size); layers here take (B, size)
        states: Tensor = model.positions(words[:, None], self.length)[:, 0]
        layers = cast(Iterable[CausalLayer], model.layers)
        for layer, all_keys, all_values in zip(layers, self.keys, self.values, strict=True):
            queries, keys, values = project_all(layer.attention, normalize(layer.attention_norm.norm, states))
            # index_copy_ takes the position from the device: a slice would need it on the host and fix it in the graph
            all_keys.index_copy_(2, self.length, keys)
            all_values.index_copy_(2, self.length, values)
            states = causal_layer_outputs(layer, states, attend(queries, all_keys, all_values, bias))
        logits: Tensor = model.readout(normalize(model.norm, states))
        # incremented on the device, so that every replay continues at the next position
        self.length.add_(1)
        return logits

    def capture(self, model: GPT) -> None:
        """Record a step. What the warm-up writes at the current position, the step itself writes again."""
        self.graph, length, device = None, self.length.clone(), self.tokens.device
        stream = torch.cuda.Stream(device)
        # capture needs a separate stream, which must wait for the writes of the current one
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            # libraries allocate workspaces and choose kernels in their first calls, which must precede the capture
            for _ in range(WARM_UP):
                self.compute(model)
                # each warm-up step advances the length, which is set back
                self.length.copy_(length)
        torch.cuda.current_stream(device).wait_stream(stream)
        torch.cuda.synchronize(device)
        graph = torch.cuda.CUDAGraph()
        # thread_local: other threads may use the device during the capture
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self.logits = self.compute(model)
        self.graph = graph


_idle: WeakKeyDictionary[GPT, list[DecodeGraph]] = WeakKeyDictionary()
_lock = Lock()


def take_graph(model: GPT, num_rows: int, capacity: int, signature: Signature) -> DecodeGraph:
    """An idle graph of this shape, or a new one; idle graphs of other weights are dropped."""
    with _lock:
        # a graph that was captured with other addresses may read freed memory
        idle = [graph for graph in _idle.get(model, []) if graph.graph is None or graph.signature == signature]
        fitting = [graph for graph in idle if graph.fits(model, num_rows, capacity)]
        # the graph leaves the list, so no other text can write to its buffers
        _idle[model] = [graph for graph in idle if not fitting or graph is not fitting[0]]
    return fitting[0] if fitting else DecodeGraph(model, num_rows, capacity)


def give_back(model: GPT, graph: DecodeGraph) -> None:
    """Keep a graph for the next text, if there are few."""
    with _lock:
        idle = _idle.setdefault(model, [])
        # beyond that the graph is dropped with its buffers
        if len(idle) < MAX_IDLE:
            idle.append(graph)


class GraphSteps:
    """A StepFunction over a decode graph that belongs to it until it is closed."""

    can_select_batch = False
    """Fewer rows would need a graph of their own, and save next to nothing."""

    def __init__(self, model: GPT, state: State, limit: int) -> None:
        ids = cast(Tensor, state.ids)
        self.model, self.length, self.context = model, ids.shape[1], model.config.context
        # views of the modules' parameters, so that a replaced one is detected without a pass over all modules
        self.parameters = [part._parameters.values() for part in model.modules() if part._parameters]
        # rounded up to a multiple
        capacity = -(-min(self.length + limit, self.context) // MULTIPLE) * MULTIPLE
        self.graph = take_graph(model, ids.shape[0], capacity, self.signature())
        self.graph.load(state.caches, ids)
        self.readable: State | None = None
        self.is_closed = False

    def signature(self) -> Signature:
        """What the graph's addresses depend on."""
        parameters = (one for one in chain.from_iterable(self.parameters) if one is not None)
        return [(one.data_ptr(), one.shape, one.stride(), one.dtype) for one in parameters]

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """Read one token of each batch element; the next call may overwrite the logits."""
        if self.readable is None and mode_reasons():
            # for example, a trace was opened between two tokens
            self.readable = self.graph.state(self.length)
        if self.readable is not None:
            step = self.model.step(tokens, self.readable)
            self.readable = step.state
            return step.logits
        # no position is left in the buffers
        if self.length == self.context:
            return self.restart(tokens)
        self.length += 1
        return self.graph.step(self.model, tokens, self.signature())

    def restart(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """A step out of a full context: the model reads the last half of it again, and no cache."""
        step = self.model.step(tokens, self.graph.state(self.context))
        self.graph.load(step.state.caches, step.state.ids)
        self.length = step.state.ids.shape[1]
        return step.logits

    def select_batch(self, rows: Int[Tensor, " selected"]) -> None:
        """Not supported: all rows stay."""
        raise NotImplementedError(f"a captured graph cannot continue with {len(rows)} of its rows.")

    def close(self) -> None:
        """Give the graph back, once: afterwards it may belong to another text."""
        if not self.is_closed:
            self.is_closed = True
            give_back(self.model, self.graph)
