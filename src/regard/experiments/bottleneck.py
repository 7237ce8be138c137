"""The fixed vector: without attention a translation gets worse with the length of its source.

The text: the encoder compresses a sentence into one vector of fixed length, so that long ones lose information; if the
vector c only starts the decoder, the decoder forgets it on the way, and c as an input of every step reminds it.

Word-by-word translation of random sentences, by four systems of equal size, trained on short sentences and tested on
longer ones too, each with its own outputs as inputs:

    c at the start    s_0 = tanh(V' c), s_t = GRU(y_{t-1}, s_{t-1})         the cell of Cho et al. without the input c
    c at every step   s_0 = tanh(V' c), s_t = GRU([y_{t-1}; c], s_{t-1})     Cho et al. 2014. https://arxiv.org/abs/1406.1078
    Seq2Seq           s_0 = the encoder's last state                         https://arxiv.org/abs/1409.3215
    Bahdanau          c_t = attend(s_{t-1}, h) at every step                 https://arxiv.org/abs/1409.0473

Refuted if a system without attention is as good on the longest trained sentences as on the shortest, if attention is
not, or if c at every step does not help.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, exceeds, negated
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, label_point, line, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.sentence_pairs import FIRST, copied, mean_loss, word_accuracy
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit
from regard.layers import Maxout
from regard.models.translation import (
    Bahdanau,
    BahdanauConfig,
    RNNEncoderDecoder,
    RNNEncoderDecoderConfig,
    Seq2Seq,
    Seq2SeqConfig,
)
from regard.tasks import count_parameters

TITLE = Title(en="The fixed vector", zh="固定长度的向量")
CLAIM = Title(
    en=(
        "One vector of fixed length forgets long sentences: without attention quality falls with the length of the "
        "input, less so if the vector enters every step; with attention it does not, up to the trained length."
    ),
    zh="固定长度的向量记不住长句：没有注意力时，质量随输入长度下降，每一步都输入该向量会好一些；有注意力时，在训练过的长度以内不下降。",
)
FULL = {"seeds": 5, "steps": 3000, "size": 128, "trained": (2, 20), "lengths": (2, 5, 10, 15, 20, 25, 30, 40)}
CHINESE = {
    "c at the start": "c 只用于开始",
    "c at every step": "c 用于每一步",
    "Bahdanau (attention)": "Bahdanau（注意力）",
    "Seq2Seq": "Seq2Seq",
    "Words that are correct, under own outputs (bars: spread)": "正确词的比例，以自己的输出为输入（误差棒：标准差）",
    "length of the source": "源句长度",
    "share of correct words": "正确词的比例",
    "trained lengths": "训练长度",
}
START, EVERY, ATTENTION = "c at the start", "c at every step", "Bahdanau (attention)"
COLOURS = {START: ORANGE, EVERY: PURPLE, "Seq2Seq": GREEN, ATTENTION: BLUE}
WORD, MARGIN = 16, 0.05
"""Size of the embeddings, and a difference of accuracies that matters."""


class StartOnly(RNNEncoderDecoder):
    """An RNN encoder-decoder whose source vector is the decoder's first state and nothing else."""

    def __init__(self, config: RNNEncoderDecoderConfig) -> None:
        super().__init__(config)
        word, size = config.embedding_size, config.hidden_size
        # without the columns of the source vector
        self.decoder = nn.GRU(word, size, batch_first=True)
        self.maxout = Maxout(input_size=size + word, output_size=config.maxout_size)

    def _decode(
        self, ids: Int[Tensor, "B T"], state: Float[Tensor, "B H"], encoded: Any
    ) -> tuple[Float[Tensor, "B T word"], Float[Tensor, "B H"]]:
        """As above without the source vector."""
        words = self.dropout(self.target_embedding(ids))
        states, last = self.decoder(words, state[None])
        return self.narrow(self.dropout(self.maxout(torch.cat([states, words], dim=-1)))), last[0]


def build(num_words: int, name: str, size: int) -> Any:
    """A system of one layer; only the hidden size differs between systems of equal parameters."""
    vocab = FIRST + num_words
    # Any: mypy knows no names of keys
    sizes: dict[str, Any] = {
        "source_vocab_size": vocab,
        "target_vocab_size": vocab,
        "embedding_size": WORD,
        "hidden_size": size,
    }
    recurrent = RNNEncoderDecoderConfig(**sizes, maxout_size=2 * WORD)
    if name == ATTENTION:
        return Bahdanau(BahdanauConfig(**sizes, alignment_size=size, maxout_size=2 * WORD))
    if name == "Seq2Seq":
        return Seq2Seq(Seq2SeqConfig(**sizes, num_layers=1))
    return StartOnly(recurrent) if name == START else RNNEncoderDecoder(recurrent)


def train_and_evaluate(
    seed: int, num_words: int, name: str, size: int, *, steps: int, trained: tuple[int, int], lengths: Sequence[int]
) -> list[float]:
    """The share of correct words at each length."""
    with seeded(seed):
        model = build(num_words, name, size)

        def loss_of(step: int) -> Tensor:
            # one length per batch, drawn from the trained ones
            pairs = copied(num_words, int(torch.randint(trained[0], trained[1] + 1, ())), count=64)
            return mean_loss(model(pairs.source, pairs.inputs), pairs.labels)

        fit(model, loss_of, steps=steps, learning_rate=1e-2)
        return [word_accuracy(model, copied(num_words, length, count=200)) for length in lengths]


Accuracies = Mapping[str, Sequence[Sequence[float]]]
"""By system: a list over seeds of accuracies over lengths."""


def run(
    *,
    seed: int = 0,
    seeds: int = 3,
    steps: int = 600,
    size: int = 64,
    num_words: int = 8,
    trained: tuple[int, int] = (2, 10),
    lengths: Sequence[int] = (2, 4, 6, 8, 10, 12, 16, 20),
) -> Finding:
    """Train every system from `seeds` seeds on the lengths between `trained`, and test on `lengths`."""
    sizes = equal_sizes(partial(build, num_words), list(COLOURS), reference=EVERY, size=size)
    accuracies = {
        name: [
            train_and_evaluate(1000 * seed + index, num_words, name, own, steps=steps, trained=trained, lengths=lengths)
            for index in range(seeds)
        ]
        for name, own in sizes.items()
    }
    rows: list[Row] = []
    for name, by_seed in accuracies.items():
        columns = zip(*by_seed, strict=True)
        shares: Row = {str(length): Measured.of(column) for length, column in zip(lengths, columns, strict=True)}
        rows.append({"system": name, "parameters": count_parameters(build(num_words, name, sizes[name])), **shares})
    holds, verdict = judge(accuracies, lengths, longest=trained[1])
    return Finding(
        name="bottleneck",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, accuracies=accuracies, lengths=lengths, longest=trained[1]),
    )


def judge(accuracies: Accuracies, lengths: Sequence[int], *, longest: int) -> tuple[bool | None, Title]:
    """Forgets: every system without attention falls from the shortest to the longest trained length."""
    last = max(index for index, length in enumerate(lengths) if length <= longest)
    # by system, at the shortest length, the longest trained one, and the longest one
    ends = {name: [[shares[i] for shares in by_seed] for i in (0, last, -1)] for name, by_seed in accuracies.items()}
    falls = {name: exceeds(short, long, margin=MARGIN) for name, (short, long, _) in ends.items()}
    forgets = all_of(*(fall for name, fall in falls.items() if name != ATTENTION))
    stays = negated(falls[ATTENTION])
    helps = exceeds(ends[EVERY][1], ends[START][1], margin=0.0)
    beyond = {name: statistics.fmean(values[2]) for name, values in ends.items()}
    best = max((name for name in beyond if name != ATTENTION), key=lambda name: beyond[name])
    facts = (
        ({True: "falls", False: "does not fall in every system", None: "falls, but within the spread"}[forgets]),
        ({True: "does not fall", False: "falls too", None: "may fall, within the spread"}[stays]),
        ({True: "helps", False: "does not help", None: "is better, but within the spread"}[helps]),
    )
    measured = ", ".join(
        f"{name} {Measured.of(short)} -> {Measured.of(long)}" for name, (short, long, _) in ends.items()
    )
    english = (
        f"Correct words at lengths {lengths[0]} -> {lengths[last]}: {measured}. Without attention quality {facts[0]}; "
        f"with attention it {facts[1]}; c at every step {facts[2]} against c at the start only. "
        f"At length {lengths[-1]} (trained up to {longest}) attention has {beyond[ATTENTION]:.2f}, "
        f"the best other system, {best}, "
        f"{beyond[best]:.2f}. Differences up to {MARGIN} count as none."
    )
    words = (
        ({True: "下降", False: "并非在每个系统中都下降", None: "下降，但差异在误差范围内"}[forgets]),
        ({True: "不下降", False: "也下降", None: "可能下降，但差异在误差范围内"}[stays]),
        ({True: "有帮助", False: "没有帮助", None: "较好，但差异在误差范围内"}[helps]),
    )
    measured = "，".join(
        f"{CHINESE[name]} {Measured.of(short)} → {Measured.of(long)}" for name, (short, long, _) in ends.items()
    )
    chinese = (
        f"长度 {lengths[0]} → {lengths[last]} 时正确词的比例：{measured}。没有注意力时质量{words[0]}；"
        f"有注意力时{words[1]}；与只用于开始相比，c 用于每一步{words[2]}。长度为 {lengths[-1]} 时"
        f"（训练长度至多 {longest}），注意力为 {beyond[ATTENTION]:.2f}，"
        f"其余系统中最好的是“{CHINESE[best]}”，为 {beyond[best]:.2f}。不超过 {MARGIN} 的差异视为没有差异。"
    )
    return all_of(forgets, stays, helps), Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, accuracies: Accuracies, lengths: Sequence[int], longest: int) -> None:
    """Accuracy by length; trained lengths are shaded."""
    (axes,) = panels(figure, CLAIM, 1)
    axes.axvspan(lengths[0], longest, color=GREY, alpha=0.1, linewidth=0)
    label_point(axes, (lengths[0] + longest) / 2, 0.0, "trained lengths", GREY, side="above")
    for name, by_seed in accuracies.items():
        line(axes, lengths, [Measured.of(column) for column in zip(*by_seed, strict=True)], COLOURS[name])
        # an empty line gives the legend an entry without error bars
        axes.plot([], [], color=COLOURS[name], label=label(name))
    axes.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="lower left", bbox_to_anchor=(0, 0.1))
    axes.set_ylim(0, 1.05)
    axes.set_xticks(lengths)
    style_axes(
        axes,
        title="Words that are correct, under own outputs (bars: spread)",
        x="length of the source",
        y="share of correct words",
    )
