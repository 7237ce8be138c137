"""Small random systems, and their outputs by every way to decode."""

from dataclasses import dataclass
from types import SimpleNamespace

import torch

from regard.contracts import EOS, LengthLimit, PaddedTokens
from regard.data.text import Tokenizer, Tokenizers, TokenizerSettings
from regard.decoding import Beam, Generation, Greedy, decode_all, generate
from regard.fused import fuse
from regard.models.language_modeling.gpt import GPT, GPTConfig
from regard.models.translation.transformer import Transformer, TransformerConfig
from regard.recipes import make_run
from regard.tasks.language_modeling import TextGenerator
from regard.tasks.translation import Translator

WORDS = "a b c d e f g h"
SOURCES = [[4, 5, 6, 2], [7, 2], [5, 5, 8, 9, 4, 2]]
PROMPTS = [[4, 5, 6], [7], [5, 5]]
OPTIONS = Generation(max_tokens=6, temperature=0.0, stop_ids=())


def make_tokenizer():
    return Tokenizer.train([WORDS], TokenizerSettings(kind="words"))


def make_transformer(*, norm="post", score="scaled_dot", shared_embeddings=True):
    config = TransformerConfig(
        source_vocab_size=12,
        target_vocab_size=12,
        hidden_size=8,
        num_layers=2,
        num_heads=2,
        feed_forward_size=16,
        norm=norm,
        score=score,
        shared_embeddings=shared_embeddings,
    )
    model = randomised(Transformer(config))
    with torch.no_grad():
        # outputs of several tokens: <eos> is not more probable than others
        model.target_embedding.table.weight[EOS] = 0.0
    return model


def make_gpt(*, positions="learned", context=9, num_heads=2):
    config = GPTConfig(
        vocab_size=12,
        hidden_size=8,
        num_layers=2,
        num_heads=num_heads,
        feed_forward_size=16,
        context=context,
        positions=positions,
    )
    return randomised(GPT(config))


def randomised(model):
    """The model in float64, with the same large random weights every time."""
    generator = torch.Generator().manual_seed(0)
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def transformer_parts(model):
    """Parts of an encoder layer and of a decoder layer, by what they are."""
    encoder, decoder = model.encoder[0], model.decoder[0]
    return SimpleNamespace(
        linears=[encoder.attention.value_proj, decoder.cross_attention.value_proj, decoder.self_attention.output_proj],
        norms=[encoder.feed_forward_norm.norm, decoder.feed_forward_norm.norm],
        layer=decoder,
        attention=decoder.self_attention,
    )


def gpt_parts(model):
    """Parts of a layer, by what they are."""
    layer = model.layers[0]
    return SimpleNamespace(
        linears=[layer.attention.value_proj, layer.feed_forward.output],
        norms=[layer.feed_forward_norm.norm],
        layer=layer,
        attention=layer.attention,
    )


@dataclass(frozen=True)
class System:
    """A model's builder, the parts that edits touch, and one way to decode, to ids and a log-probability."""

    make: object
    parts: object
    answer: object


def searching(search):
    """Translate by a search."""

    def answer(model):
        rows = decode_all(fuse(model), SOURCES, search=search, stack=PaddedTokens.from_lists, limit=LengthLimit(0, 6))
        return [(one.ids, one.log_prob) for hypotheses in rows for one in hypotheses]

    return answer


def generating(model):
    return [(row.ids, sum(row.log_probs)) for row in generate(fuse(model), PROMPTS, OPTIONS)]


def translating(model):
    tokenizer = make_tokenizer()
    translator = Translator(
        model=model,
        tokenizers=Tokenizers(source=tokenizer, target=tokenizer, joint=True),
        run=make_run("multi30k", "transformer"),
    )
    actual = translator.predict(["a b c", "d", "e e f g"], beam=2)
    return [(tuple(one.tokens), one.log_prob) for one in actual]


def writing(model):
    writer = TextGenerator(model=model, tokenizer=make_tokenizer(), run=make_run("tinyshakespeare", "gpt"))
    actual = writer.generate(["a b c", "d"], max_tokens=6, temperature=0)
    return [(one.tokens, sum(one.log_probs)) for one in actual]


SYSTEMS = {
    "transformer greedy": System(make_transformer, transformer_parts, searching(Greedy())),
    "transformer beam": System(make_transformer, transformer_parts, searching(Beam(size=3, num_best=3))),
    "translator": System(make_transformer, transformer_parts, translating),
    "gpt": System(make_gpt, gpt_parts, generating),
    "writer": System(make_gpt, gpt_parts, writing),
}
