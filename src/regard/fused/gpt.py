"""Fused generation with GPT: its steps, and on a GPU a captured graph of them.

A text is read by the model's own code: there products dominate, and fused code would not be faster.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import Cache, ModelOutput, OutputLayer, Step, StepFunction, mode_reasons, unsupported_reasons
from regard.fused.decode_graph import GraphSteps
from regard.fused.transformer_layers import attend, causal_layer_outputs, normalize, project_all, read_out
from regard.layers import CausalLayer
from regard.models.language_modeling import GPT, State


@dataclass(frozen=True, kw_only=True)
class FusedState(State):
    """A state from which fused steps may continue: the model was compared at the start. Readable steps take it too."""


class FusedGPT:
    """A GPT that generates in fewer calls, with the numbers and the weights of `model`."""

    verb: ClassVar[str] = "decodes"

    def __init__(self, model: GPT) -> None:
        self.model = model

    def unsupported_reasons(self) -> list[str]:
        """Why the model's own steps run at present; [] if fused ones do."""
        own = []
        if not self.model.is_placed:
            own.append(f"positions are {self.model.config.positions!r}, and fused steps support those added to words")
        return own + unsupported_reasons(self.model)

    @property
    def readout(self) -> OutputLayer:
        """The model's own."""
        return self.model.readout

    def start(self, batch_size: int) -> State:
        """The state before the first token, and the decision whether fused steps may follow."""
        return self.compared(self.model.start(batch_size))

    def compared(self, state: State) -> State:
        """A state that allows fused steps if the model does."""
        # the type carries the decision, so that fused steps compare the model once per text
        return state if self.unsupported_reasons() else FusedState(caches=state.caches, ids=state.ids)

    def features(self, tokens: Int[Tensor, "B T"], state: State) -> ModelOutput:
        """Read many tokens by the model's own code."""
        return self.model.features(tokens, state)

    def step(self, tokens: Int[Tensor, " B"], state: State) -> Step:
        """Read one token and predict the next."""
        if not isinstance(state, FusedState):
            state = self.compared(state)
        model, length = self.model, state.caches[0].length
        # a full context is read again by halves, as the model defines it
        if not isinstance(state, FusedState) or length >= model.config.context or mode_reasons():
            return model.step(tokens, state)
        words = F.embedding(tokens, model.embedding.weight)
        # (1,): all texts of a batch have the same length
        position = torch.tensor([length], device=tokens.device)
        states: Tensor = model.positions(words[:, None], position)[:, 0]
        caches: list[Cache] = []
        for layer, cache in zip(cast(Iterable[CausalLayer], model.layers), state.caches, strict=True):
            inputs = normalize(layer.attention_norm.norm, states)
            queries, keys, values = project_all(layer.attention, inputs)
            next_cache = cache.append(keys, values)
            assert next_cache.keys is not None
            assert next_cache.values is not None
            states = causal_layer_outputs(layer, states, attend(queries, next_cache.keys, next_cache.values))
            caches.append(next_cache)
        logits = read_out(model.readout, normalize(model.norm, states))
        # the readable step needs the ids when the context is full
        ids = torch.cat([cast(Tensor, state.ids), tokens[:, None]], dim=1)
        return Step(logits=logits, state=replace(state, caches=tuple(caches), ids=ids))

    def step_function(self, state: State, limit: int) -> StepFunction | None:
        """On a CUDA device, the steps of a captured graph; None elsewhere and where fused steps are not supported."""
        if not isinstance(state, FusedState):
            state = self.compared(state)
        if not isinstance(state, FusedState) or not cast(Tensor, state.ids).is_cuda or mode_reasons():
            return None
        return GraphSteps(self.model, state, limit)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T vocab"]:
        """The model's own."""
        logits: Tensor = self.model(tokens)
        return logits
