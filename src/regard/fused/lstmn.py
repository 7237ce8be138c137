"""Fused training loops of the three LSTMN systems: translation, language model, text classifier.

Shapes: B batch, T target positions, L positions of a text, H hidden size.
"""

from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.scores import Additive
from regard.contracts import ClassifierOutput, Memory, ModelOutput, OutputLayer, PaddedTokens, Step
from regard.fused.lstmn_cell import CellLoop, run_stack, run_windowed
from regard.fused.training import FusedTranslation, attention_reasons, loop_reasons
from regard.kernels.recurrent import DeferredLinear, StepwiseAdditiveAttention
from regard.layers import LSTMNScore, WindowedMemory, mean_of_words
from regard.models.language_modeling import LSTMNLanguageModel
from regard.models.text_classification import LSTMNEncoder
from regard.models.translation import LSTMN, DeepFusion, DeepLayer, ShallowFusion


class FusedLSTMN(FusedTranslation[LSTMN]):
    """The LSTMN encoder-decoder with fused training loops on both sides."""

    def unsupported_reasons(self) -> list[str]:
        """Why the model's own loop runs at present; [] if the fused one does."""
        decoder: ShallowFusion | DeepFusion = self.model.decoder
        if isinstance(decoder, ShallowFusion):
            reasons = attention_reasons(decoder.attention, Additive)
        else:
            # all layers have the alignment of the config
            reasons = attention_reasons(decoder.layers[0].across.attention, LSTMNScore)
        return reasons + super().unsupported_reasons()

    def loop(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T H"]:
        """As `LSTMN.features`."""
        model: LSTMN = self.model
        tapes = run_stack(model.encoder, model.dropout(model.source_embedding(source.ids)))
        memories = model.decoder.prepare_memory(tapes, source.mask)
        # positions first, so that the memory of one step is contiguous
        words = model.dropout(model.target_embedding(target.ids.t()))
        decoder: ShallowFusion | DeepFusion = model.decoder
        if isinstance(decoder, ShallowFusion):
            states = decode_shallow(decoder, words, memories[0])
        else:
            states = decode_deep(decoder, words, memories)
        return model.dropout(states.transpose(0, 1))


def decode_shallow(fusion: ShallowFusion, words: Float[Tensor, "T B word"], memory: Memory) -> Float[Tensor, "T B H"]:
    """The top state at every position; each step runs all layers, since its query to the source is the top state."""
    score, (num_steps, batch_size, _) = cast(Additive, fusion.attention.score), words.shape
    attention = StepwiseAdditiveAttention(memory.keys, score.energy, memory.values, memory.mask, num_steps=num_steps)
    query = DeferredLinear(score.query_proj.weight, num_steps=num_steps, batch_size=batch_size)
    context = DeferredLinear(fusion.context_proj.weight, num_steps=num_steps, batch_size=batch_size)
    between = [
        DeferredLinear(cell.input_proj.weight, num_steps=num_steps, batch_size=batch_size)
        for cell in fusion.stack.cells[1:]
    ]
    loops = [CellLoop(cell, num_steps=num_steps, batch_size=batch_size) for cell in fusion.stack.cells]
    state, states = words.new_zeros(batch_size, loops[0].size), []
    # (T, B, gates), one step at a time
    for word in fusion.project(words).unbind(0):
        state = loops[0](context(attention(query(state))[0], word))
        for project, loop in zip(between, loops[1:], strict=True):
            state = loop(project(fusion.stack.dropout(state)))
        states.append(state)
    return torch.stack(states)


def decode_deep(
    fusion: DeepFusion, words: Float[Tensor, "T B word"], memories: tuple[Memory, ...]
) -> Float[Tensor, "T B H"]:
    """The top state at every position, layer by layer: no layer depends on a later one."""
    states = words
    for number, (layer, memory) in enumerate(zip(fusion.layers, memories, strict=True)):
        states = decode_deep_layer(layer, fusion.dropout(states) if number else states, memory)
    return states


def decode_deep_layer(layer: DeepLayer, inputs: Float[Tensor, "T B input"], memory: Memory) -> Float[Tensor, "T B H"]:
    """A layer's state at every position."""
    size, (num_steps, batch_size, _) = layer.hidden_size, inputs.shape
    score = cast(LSTMNScore, layer.across.attention.score)
    attention = StepwiseAdditiveAttention(memory.keys, score.energy, memory.values, memory.mask, num_steps=num_steps)
    # g~ is multiplied for the gate r and for the next query: one product
    joined = torch.cat([layer.gate.weight, layer.across.summary_proj.weight])
    bias = torch.cat([layer.gate.bias, joined.new_zeros(size)])
    from_summary = DeferredLinear(joined, bias, num_steps=num_steps, batch_size=batch_size)
    loop = CellLoop(layer.cell, num_steps=num_steps, batch_size=batch_size)
    # the summary's share of the next query; there is none before the first step
    query_share, states = None, []
    for projected in layer.project(inputs).unbind(0):
        # 5 H for the cell (its query and four gates), H for the query to the source, H for the gate r
        own, query, gate = projected.split([5 * size, size, size], dim=-1)
        context, _ = attention(query if query_share is None else query + query_share)
        summary, source_memory = context.chunk(2, dim=-1)
        summary_gate, query_share = from_summary(summary).chunk(2, dim=-1)
        states.append(loop(own, torch.sigmoid(gate + summary_gate) * source_memory))
    return torch.stack(states)


class FusedLSTMNLanguageModel:
    """The LSTMN language model with a fused loop for more than one token."""

    verb: ClassVar[str] = "trains"

    def __init__(self, model: LSTMNLanguageModel) -> None:
        self.model = model

    def unsupported_reasons(self) -> list[str]:
        """Why the model's own loop runs at present; [] if the fused one does."""
        return loop_reasons(self.model)

    @property
    def readout(self) -> OutputLayer:
        """The model's own."""
        return self.model.readout

    def start(self, batch_size: int) -> tuple[WindowedMemory, ...]:
        """The model's own."""
        return self.model.start(batch_size)

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> Step:
        """The model's own."""
        return self.model.step(tokens, state)

    def features(self, tokens: Int[Tensor, "B L"], state: tuple[WindowedMemory, ...]) -> ModelOutput:
        """Read many tokens, by the fused loop unless there is a reason against it."""
        # for a single step there is nothing to compute once after the loop
        if tokens.shape[1] < 2 or self.unsupported_reasons():
            return self.model.features(tokens, state)
        return self.loop(tokens, state)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L vocab"]:
        """The model's own."""
        logits: Tensor = self.model(tokens)
        return logits

    def loop(self, tokens: Int[Tensor, "B L"], state: tuple[WindowedMemory, ...]) -> ModelOutput:
        """As `LSTMNLanguageModel.features`."""
        model = self.model
        states, memories = model.dropout(model.embedding(tokens)), []
        for cell, window in zip(model.cells, state, strict=True):
            run = run_windowed(cell, states, window)
            states = model.dropout(run.hidden)
            memories.append(run.memory)
        return ModelOutput(features=states, state=tuple(memories))


class FusedLSTMNEncoder:
    """The LSTMN text classifier with a fused loop."""

    verb: ClassVar[str] = "trains"

    def __init__(self, model: LSTMNEncoder) -> None:
        self.model = model

    def unsupported_reasons(self) -> list[str]:
        """Why the model's own loop runs at present; [] if the fused one does."""
        return loop_reasons(self.model)

    def __call__(self, sentences: PaddedTokens) -> ClassifierOutput:
        """As `forward`."""
        return self.forward(sentences)

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Scores of the classes, by the fused loop unless there is a reason against it."""
        if self.unsupported_reasons():
            classified: ClassifierOutput = self.model(sentences)
            return classified
        return self.loop(sentences)

    def loop(self, sentences: PaddedTokens) -> ClassifierOutput:
        """As `LSTMNEncoder.forward`."""
        model, sentences = self.model, sentences.pad_to(length=1)
        tapes = run_stack(model.encoder, model.dropout(model.embedding(model.word_dropout(sentences.ids))))
        return ClassifierOutput(logits=model.classifier(mean_of_words(tapes[-1].hidden, sentences.mask)))
