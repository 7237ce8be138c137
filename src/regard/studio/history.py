"""Milestones of the history that are in no table of models or mechanisms: building blocks, other systems, a story.

A system of this list that a task's table has gained is left out: the table describes it. Whether a building block
exists is found out at run time, so the list needs no edit when one is added.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from regard.contracts import ModelEntry
from regard.studio.code_paths import find_class, path_of
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import Milestone

BLOCK, OTHER = "block", "other"
FAMILIES = {
    BLOCK: LocalizedText(en="Blocks", zh="构件"),
    OTHER: LocalizedText(en="Other systems", zh="其他系统"),
}


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """A milestone.

    family: a key of FAMILIES or the name of a task. build: `module:name` of the class that realises it, if there is
    one. named: a word in the title of its entry in a table, where a paper has several systems. lesson: the lesson that
    tells more.
    """

    family: str
    year: int
    title: LocalizedText
    explanation: LocalizedText
    formula: str
    paper: str
    build: str | None = None
    named: str = ""
    lesson: str | None = None

    def is_among(self, entries: Iterable[ModelEntry]) -> bool:
        """True if a table has this system: the same paper, and the word in its title."""
        return (self.family == OTHER or bool(self.named)) and any(
            entry.paper == self.paper and (not self.named or self.named in entry.title.split()) for entry in entries
        )

    def milestone(self, key: str, *, lane: int, family_title: LocalizedText) -> Milestone:
        """The milestone; without a file if nothing in the package realises it."""
        built = None if self.build is None else find_class(self.build)
        return Milestone(
            key=f"history/{key}",
            year=self.year,
            title=self.title,
            family=self.family,
            family_title=family_title,
            lane=lane,
            is_system=self.family == OTHER,
            command=None,
            explanation=self.explanation,
            formula=self.formula,
            paper=self.paper,
            file=None if built is None else path_of(built),
            figure=None,
            model=None,
            parts=None,
            lesson=self.lesson,
        )


HISTORY = {
    "rctm_ii": HistoryEntry(
        family="translation",
        year=2013,
        title=LocalizedText(en="RCTM II", zh="RCTM II"),
        explanation=LocalizedText(
            en="The source is folded to its n-grams and unfolded to one column for each target position, so every step "
            "has its own vector.",
            zh="把源句折叠成 n-gram，再展开成每个目标位置一列，因此每一步都有自己的向量。",
        ),
        formula="h_t = sigmoid(I y_{t-1} + R h_{t-1} + S unfold(fold(x))_t)",
        paper="https://aclanthology.org/D13-1176",
        build="regard.models.translation.rctm:ConvolutionalNGramModel",
        named="II",
    ),
    "story": HistoryEntry(
        family="translation",
        year=2014,
        title=LocalizedText(en="Story: two cursors, diagonal, soft search", zh="故事：光标、对角线、软搜索"),
        explanation=LocalizedText(
            en="How RNNsearch came about, by Bahdanau's own account: first two cursors over source and target with "
            "dynamic programming, which was hard to realise; then a fixed diagonal, which worked but was clumsy; then "
            "a softmax by which the decoder itself learns where to search.",
            zh="Bahdanau 自述 RNNsearch 的来历：先是在源句与目标句上各移动一个光标，用动态规划对所有路径求和，"
            "难以实现；随后是固定的对角线，能用但笨拙；最后用 softmax 让解码器自己学习该在哪里找。",
        ),
        formula="cursors: sum over monotonic paths; diagonal: p_t = t S/T; soft search: softmax(e_t)",
        paper="https://arxiv.org/abs/1409.0473",
        build="regard.models.translation:Bahdanau",
        lesson="mail",
    ),
    "glimpses": HistoryEntry(
        family=OTHER,
        year=2014,
        title=LocalizedText(en="Glimpses (RAM)", zh="瞥视（RAM）"),
        explanation=LocalizedText(
            en="A recurrent network sees only a small part of an image at a time and chooses where the next one is, "
            "trained by REINFORCE.",
            zh="循环网络每次只看图像的一小块，并自己决定下一次看哪里，用 REINFORCE 训练。",
        ),
        formula="h_t = f(h_{t-1}, glimpse(x, l_t)), l_{t+1} ~ N(tanh(W h_t), sigma)",
        paper="https://arxiv.org/abs/1406.6247",
    ),
    "captioning": HistoryEntry(
        family=OTHER,
        year=2015,
        title=LocalizedText(en="Show, Attend and Tell", zh="Show, Attend and Tell"),
        explanation=LocalizedText(
            en="Captions of images: before every word the decoder attends to the cells of a grid of features, softly "
            "or by sampling one.",
            zh="为图像生成描述：生成每个词之前，解码器关注特征网格的各个格子，或加权求和，或抽取其中一个。",
        ),
        formula="z_t = beta_t sum_i alpha_ti a_i, or z_t = a_i with i ~ alpha_t",
        paper="https://arxiv.org/abs/1502.03044",
    ),
    "location_aware": HistoryEntry(
        family=OTHER,
        year=2015,
        title=LocalizedText(en="Location-aware attention for speech", zh="用于语音的位置感知注意力"),
        explanation=LocalizedText(
            en="The score also gets the previous weights, through a convolution, so attention to a long or repetitive "
            "sound moves on instead of losing its place.",
            zh="评分函数还通过卷积读入上一步的权重，因此在很长或有重复的语音中，注意力会继续前移，不会错位。",
        ),
        formula="e_ij = w . tanh(W s_{i-1} + V h_j + U f_ij + b), f_i = F * alpha_{i-1}",
        paper="https://arxiv.org/abs/1506.07503",
    ),
    "listen_attend_spell": HistoryEntry(
        family=OTHER,
        year=2015,
        title=LocalizedText(en="Listen, Attend and Spell", zh="Listen, Attend and Spell"),
        explanation=LocalizedText(
            en="Speech to letters: a pyramid of LSTMs shortens the sound eightfold, and the decoder attends to it at "
            "every letter.",
            zh="语音转文字：金字塔形的 LSTM 把语音序列缩短到八分之一，解码器生成每个字母时都关注它。",
        ),
        formula="h_i^n = BLSTM(h_{i-1}^n, [h_{2i}^{n-1}; h_{2i+1}^{n-1}]), c_i = attend(s_i, h)",
        paper="https://arxiv.org/abs/1508.01211",
    ),
    "residual": HistoryEntry(
        family=BLOCK,
        year=2015,
        title=LocalizedText(en="Residual connection (ResNet)", zh="残差连接（ResNet）"),
        explanation=LocalizedText(
            en="A layer adds to its input instead of replacing it, so the gradient has a direct path at any "
            "depth. Every layer of a Transformer has two.",
            zh="每一层把结果加到输入上，而不是替换它，因此无论多深，梯度都有一条直达的通路。"
            "Transformer 每层有两个残差连接。",
        ),
        formula="y = x + f(x)",
        paper="https://arxiv.org/abs/1512.03385",
        build="regard.layers:PreNorm",
    ),
    "multi_head": HistoryEntry(
        family=BLOCK,
        year=2017,
        title=LocalizedText(en="Multi-head", zh="多头"),
        explanation=LocalizedText(
            en="Several attentions in parallel, each with its own projections, so that one query can attend to "
            "different words for different reasons.",
            zh="多个注意力并行，各有自己的投影，因此同一个查询可以出于不同的原因关注不同的词。",
        ),
        formula="W_o [attend(W_q^h x, W_k^h y, W_v^h y) for each h]",
        paper="https://arxiv.org/abs/1706.03762",
        build="regard.attention:MultiHeadAttention",
        lesson="experts",
    ),
    "cache": HistoryEntry(
        family=BLOCK,
        year=2019,
        title=LocalizedText(en="Key-value cache", zh="键值缓存"),
        explanation=LocalizedText(
            en="Keys and values of the past are stored, so that a new token needs one query instead of a whole pass; "
            "the paper shows that loading them is the cost of generation.",
            zh="保存过去的键和值，生成新词元时只需计算一个查询，不必重新计算全文；"
            "论文指出，读取它们正是生成的主要开销。",
        ),
        formula="K_t = [K_{t-1}; k_t], V_t = [V_{t-1}; v_t]",
        paper="https://arxiv.org/abs/1911.02150",
        build="regard.attention:GrowingCache",
        lesson="state_rules",
    ),
    "linear_attention": HistoryEntry(
        family=BLOCK,
        year=2020,
        title=LocalizedText(en="Linear attention", zh="线性注意力"),
        explanation=LocalizedText(
            en="A product of features replaces the exponential, so the past fits into one matrix: constant memory, and "
            "cost linear in the length.",
            zh="用特征的乘积代替指数，过去的内容可以放进一个矩阵：内存固定，代价随长度线性增长。",
        ),
        formula="phi(q_t) S_t / (phi(q_t) . z_t), S_t = S_{t-1} + phi(k_t) v_t",
        paper="https://arxiv.org/abs/2006.16236",
        build="regard.layers:LinearAttention",
    ),
}
