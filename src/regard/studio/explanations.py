"""What each system, mechanism and experiment is about, in a sentence or two."""

from regard.studio.schema.base import LocalizedText

EXPLANATIONS = {
    "translation": {
        "rctm": LocalizedText(
            en="The first neural translator: convolutions fold the source into one vector, a recurrent network writes.",
            zh="最早的神经机器翻译：用卷积把源句压成一个向量，再由循环网络展开成译文。",
        ),
        "rnn_encoder_decoder": LocalizedText(
            en="One recurrent network reads, another writes; the vector between them is shown to it at every step.",
            zh="一个循环网络负责读，另一个负责写；两者之间的向量在每一步都提供给解码器。",
        ),
        "seq2seq": LocalizedText(
            en="Deep LSTMs end to end, the source read backwards; the vector is only where the writer starts.",
            zh="端到端的深层 LSTM，源句倒着读；那个向量只用作解码器的初始状态。",
        ),
        "bahdanau": LocalizedText(
            en="The decoder looks back: before every word it searches the whole source for what it needs now.",
            zh="让解码器回头看：每写一个词之前，都在整个源句中搜索此刻需要的内容。",
        ),
        "luong": LocalizedText(
            en="Simpler scores, asked by the current state, and local windows instead of the whole source.",
            zh="用当前状态提问，评分更简单，并可只看局部窗口而非整个源句。",
        ),
        "lstmn": LocalizedText(
            en="A network that attends to its own past: every state stays on a tape instead of being folded into one.",
            zh="网络关注自己的过去：把每个状态都留在记忆带上，而不是压成一个。",
        ),
        "conv_seq2seq": LocalizedText(
            en="Convolutions instead of recurrence, so training runs in parallel; every decoder layer attends.",
            zh="用卷积代替循环，训练得以并行；解码器每一层都有注意力。",
        ),
        "transformer": LocalizedText(
            en="Nothing but attention: any two words are one step apart, and many heads look at once.",
            zh="只用注意力：任意两个词只隔一步，多个头同时去看。",
        ),
    },
    "language_modeling": {
        "ngram": LocalizedText(
            en="No network: the next word by how often it followed the last few; rare cases lean on shorter ones.",
            zh="没有网络：按前几个词之后各词出现的次数来猜下一个词，少见的情况用更短的上下文来平滑。",
        ),
        "mlp": LocalizedText(
            en="Words become vectors, and a hidden layer over the last few predicts the next: the first neural one.",
            zh="词变成向量，隐藏层只看最后几个词来预测下一个：最早的神经语言模型。",
        ),
        "lstm": LocalizedText(
            en="All that was read is folded into one state of fixed size, and gates say what to keep of it.",
            zh="读过的一切都压进一个大小固定的状态，由门决定保留什么。",
        ),
        "lstmn": LocalizedText(
            en="An LSTM whose past states lie apart on a tape; before every word it looks back at them, one by one.",
            zh="把过去的状态逐个留在记忆带上的 LSTM；读每个词之前都回头逐一去看。",
        ),
        "attention": LocalizedText(
            en="An LSTM looks back at its own last outputs; one vector is key, value and prediction at once.",
            zh="LSTM 回头看自己最近的输出；同一个向量既是键、又是值，还要用来预测。",
        ),
        "key_value": LocalizedText(
            en="The output is split: one half is compared, the other is read and predicts.",
            zh="把输出一分为二：一半用来比较，另一半用来读取和预测。",
        ),
        "key_value_predict": LocalizedText(
            en="Three parts for three jobs: a key to compare, a value to read, and one that only predicts.",
            zh="三项工作各用一份：键用来比较，值用来读取，第三份专门预测。",
        ),
        "ngram_rnn": LocalizedText(
            en="Parts of the last few outputs side by side, and no attention at all: it does nearly as well.",
            zh="把最近几个输出的各一部分拼在一起，完全不用注意力，效果却相差无几。",
        ),
        "gpt": LocalizedText(
            en="The Transformer's decoder alone, from left to right; what it read stays in a cache that grows.",
            zh="只用 Transformer 的解码器，从左到右读文本；读过的内容留在不断增长的缓存里。",
        ),
        "ttt": LocalizedText(
            en="The state is itself a small model that goes on learning from the text while it is read.",
            zh="状态本身就是一个小模型，一边读文本一边继续学习。",
        ),
    },
    "text_classification": {
        "cnn": LocalizedText(
            en="Filters slide over neighbouring words, and of each only its strongest answer is kept.",
            zh="卷积核在相邻的词上滑动，每个核只保留最强的响应。",
        ),
        "bilstm": LocalizedText(
            en="One LSTM reads forwards, one backwards, and the largest value of each feature over all words counts.",
            zh="一个 LSTM 正着读，一个倒着读，每个特征取所有词中的最大值。",
        ),
        "lstmn_encoder": LocalizedText(
            en="A sentence is read onto a tape, looked back at before every word; the class comes from its mean.",
            zh="把句子读到记忆带上，读每个词之前都回头看；最后由其平均值得出类别。",
        ),
        "structured_self_attention": LocalizedText(
            en="A sentence becomes a matrix: each row of attention looks at other words, or pays for the overlap.",
            zh="把句子变成一个矩阵：每一行注意力看不同的词，看得重复就要受罚。",
        ),
        "transformer_encoder": LocalizedText(
            en="Every word looks at every other in each layer, both ways; the class comes from the mean of all words.",
            zh="每一层里每个词都能看所有的词，不分前后；最后由所有词的平均值得出类别。",
        ),
    },
    "score": {
        "gaussian": LocalizedText(
            en="Near is like: the score falls with the squared distance. With softmax it is kernel regression.",
            zh="越近越像：评分随距离平方下降。配上 softmax 就是核回归。",
        ),
        "additive": LocalizedText(
            en="A small network compares query and key, so that likeness itself is learned.",
            zh="用一个小网络比较查询与键，连“相似”本身也是学出来的。",
        ),
        "cosine": LocalizedText(
            en="Only the angle counts, not the length: a long key is not looked at more for being long.",
            zh="只看夹角，不看长度：键不会因为长而更受关注。",
        ),
        "dot": LocalizedText(
            en="The plainest comparison, one multiplication a dimension; both sides must have the same size.",
            zh="最朴素的比较，每个维度一次乘法；两边大小必须相同。",
        ),
        "general": LocalizedText(
            en="A learned matrix stands between query and key, so their sizes may differ.",
            zh="在查询与键之间放一个可学习的矩阵，两者大小可以不同。",
        ),
        "concat": LocalizedText(
            en="Query and key side by side go through one layer: the additive score with its two matrices in one.",
            zh="把查询与键拼在一起过一层网络：相当于把加性评分的两个矩阵合成一个。",
        ),
        "location": LocalizedText(
            en="The query alone says which position to look at; what stands there is not asked.",
            zh="只由查询决定看哪个位置，不管那里是什么内容。",
        ),
        "biased_general": LocalizedText(
            en="General, plus a bias: some keys are worth a look whatever the query.",
            zh="在 general 上加一个偏置：有些键无论查询是什么都值得看。",
        ),
        "activated_general": LocalizedText(
            en="General, bent by a nonlinearity, which keeps a single score from growing without end.",
            zh="在 general 之后加非线性激活，使单个评分不会无限增大。",
        ),
        "scaled_dot": LocalizedText(
            en="The dot product over the root of its size: variance 1 at every size, so softmax keeps its gradient.",
            zh="点积除以维度的平方根：任何维度下方差都是 1，softmax 不会失去梯度。",
        ),
    },
    "alignment": {
        "ratio": LocalizedText(
            en="Each key's share of the total, without an exponential: the weights of Nadaraya and Watson.",
            zh="每个键在总和中的占比，不用指数：这正是 Nadaraya 与 Watson 的权重。",
        ),
        "softmax": LocalizedText(
            en="Every key gets some weight, the best ones most, and the whole is smooth enough to learn from.",
            zh="每个键都分到一些权重，越好越多，而且足够平滑，便于学习。",
        ),
        "diagonal": LocalizedText(
            en="No learning: the target's place, stretched to the source's length, says where to look. A baseline.",
            zh="不用学习：把目标位置按长度比例对应到源句，就是要看的地方。用作基线。",
        ),
        "hard": LocalizedText(
            en="Look at one key only, the best. It has no gradient of its own.",
            zh="只看最好的那一个键。它本身没有梯度。",
        ),
        "hard_sampled": LocalizedText(
            en="Draw one key by chance, and learn from whether the draw paid off (REINFORCE).",
            zh="随机抽一个键，再根据结果好坏来学习（REINFORCE）。",
        ),
        "local_monotonic": LocalizedText(
            en="Look only near the same position: source and target are taken to run side by side.",
            zh="只看相同位置附近：假定源句与译文大致同步推进。",
        ),
        "local_predictive": LocalizedText(
            en="Predict the place to look at, then read a window around it, its middle most.",
            zh="先预测要看的位置，再读它周围的窗口，越靠中心权重越大。",
        ),
        "sparsemax": LocalizedText(
            en="The nearest distribution to the scores: weak keys get exactly nothing.",
            zh="取离评分最近的概率分布：弱的键恰好得零。",
        ),
        "hard_gumbel": LocalizedText(
            en="A hard choice by noise in the scores, with the gradient of a soft one.",
            zh="给评分加噪声来做硬选择，梯度却用软选择的。",
        ),
        "entmax": LocalizedText(
            en="A dial between softmax and sparsemax: alpha says how readily keys are dropped.",
            zh="在 softmax 与 sparsemax 之间调节：alpha 决定多容易舍弃一个键。",
        ),
        "sigmoid": LocalizedText(
            en="Each key is judged alone and nobody has to share; the weights need not sum to 1.",
            zh="每个键单独评判，互不争抢；权重之和不必为 1。",
        ),
    },
    "mask": {
        "padding": LocalizedText(
            en="Sentences of a batch differ in length: what only fills them up is not read.",
            zh="一批句子长短不一：仅用来补齐的部分不能读。",
        ),
        "window": LocalizedText(
            en="Look only so far to each side, and the cost grows with the length instead of its square.",
            zh="两侧只看有限距离，开销随长度线性增长，而不是平方。",
        ),
        "causal": LocalizedText(
            en="No word sees what comes after it, so all of a text can be learned from at once.",
            zh="任何词都看不到后文，因此整段文本可以同时用于学习。",
        ),
        "prefix": LocalizedText(
            en="The beginning may be seen by all: joined with the causal mask, a prompt is read both ways.",
            zh="开头部分人人可见：与因果掩码合用，提示语可以双向阅读。",
        ),
        "dilated": LocalizedText(
            en="A window with gaps: farther sight at the same price.",
            zh="带间隔的窗口：同样的开销，看得更远。",
        ),
        "predicate": LocalizedText(
            en="Any rule about two positions, written as a function.",
            zh="关于两个位置的任意规则，写成一个函数即可。",
        ),
    },
    "position": {
        "learned": LocalizedText(
            en="A vector for each place, learned and added to the word; beyond the last place it knows nothing.",
            zh="每个位置一个可学习的向量，加到词上；超出最后一个位置便一无所知。",
        ),
        "sinusoidal": LocalizedText(
            en="Waves of many lengths say where a word stands; nothing to learn, and no last place.",
            zh="用多种波长的正弦波表示位置；无需学习，也没有长度上限。",
        ),
        "relative": LocalizedText(
            en="Not where a word stands but how far it is from the one that looks.",
            zh="不看词在哪里，而看它离查询的词有多远。",
        ),
        "rotary": LocalizedText(
            en="Queries and keys are turned by their place, so their product depends on the distance alone.",
            zh="按位置旋转查询与键，于是点积只取决于两者的距离。",
        ),
        "alibi": LocalizedText(
            en="Farther keys score lower, by a slope a head: nothing to learn, and it stretches to longer texts.",
            zh="越远的键评分越低，每个头一个斜率：无需学习，还能推广到更长的文本。",
        ),
    },
}
"""Of the timeline, by family and name."""

CLAIMS = {
    "pooling": (
        "平均、固定核与学习核",
        "平均汇聚不如固定宽度的核，固定的不如学出宽度的；样本变多时，只有宽度随之缩小才会收敛。",
    ),
    "scaling": ("为何除以 √d", "点积的方差等于维度 d；不缩放时 softmax 随 d 增大而饱和，梯度消失。"),
    "embedding_scale": ("为何词嵌入乘以 √d", "比较词嵌入与位置编码的范数：缩放之前与之后。"),
    "permutation": ("打乱顺序", "自注意力对词的顺序等变：打乱输入，输出照样打乱；位置编码打破这一点。"),
    "attention_span": (
        "注意力看得多远",
        "可以回看 15 个词的语言模型主要只用最近 5 个；键、值、预测分开有益，但没有注意力的 4-gram RNN 与之相当。",
    ),
    "causal_mask": ("没有因果掩码", "没有因果掩码，训练损失骤降，而生成失败：模型抄了答案。"),
}
"""Title and claim of each experiment in Chinese; the English claim is the experiment's own."""
