"""One or two sentences on each mechanism, in English and Chinese.

Those on a system are in its ModelEntry, those on an experiment in its module.
"""

from regard.studio.schema.base import LocalizedText

EXPLANATIONS = {
    "score": {
        "gaussian": LocalizedText(
            en="The negative squared distance between query and key. With softmax it is kernel regression.",
            zh="查询与键的距离平方取负。配上 softmax 就是核回归。",
        ),
        "additive": LocalizedText(
            en="A network with one hidden layer compares query and key, so the similarity is learned.",
            zh="用一个单隐藏层网络比较查询与键，相似度由学习得到。",
        ),
        "cosine": LocalizedText(
            en="The cosine of the angle between query and key: the length of a key has no effect.",
            zh="查询与键夹角的余弦：键的模长不影响分数。",
        ),
        "dot": LocalizedText(
            en="The dot product of query and key, which must have the same size.",
            zh="查询与键的点积，两者维数必须相同。",
        ),
        "general": LocalizedText(
            en="A learned matrix between query and key, whose sizes may differ.",
            zh="查询与键之间有一个可学习的矩阵，两者维数可以不同。",
        ),
        "concat": LocalizedText(
            en="One layer on the concatenation of query and key: the additive score with both matrices in one.",
            zh="查询与键拼接后过一层网络：相当于把加性评分函数的两个矩阵合成一个。",
        ),
        "location": LocalizedText(
            en="The scores are computed from the query alone, one for each position; the keys are not used.",
            zh="分数只由查询计算，每个位置一个，不使用键。",
        ),
        "biased_general": LocalizedText(
            en="General with a bias for each key, independent of the query.",
            zh="在 general 上为每个键加一个与查询无关的偏置。",
        ),
        "activated_general": LocalizedText(
            en="General with a bias and a nonlinearity such as tanh.",
            zh="在 general 上加偏置和 tanh 之类的非线性激活。",
        ),
        "scaled_dot": LocalizedText(
            en="The dot product divided by √d: variance 1 at every size d, so the softmax keeps its gradient.",
            zh="点积除以 √d：无论维度 d 多大，方差都是 1，softmax 不会失去梯度。",
        ),
    },
    "alignment": {
        "ratio": LocalizedText(
            en="Each score divided by their sum, without an exponential: the weights of Nadaraya and Watson.",
            zh="每个分数除以总和，不用指数：Nadaraya 与 Watson 的权重。",
        ),
        "softmax": LocalizedText(
            en="Exponentials divided by their sum: every key has a positive weight, and the gradient is smooth.",
            zh="指数除以总和：每个键的权重都大于 0，梯度平滑。",
        ),
        "diagonal": LocalizedText(
            en="Not learned: the position in the target, scaled to the source's length. A baseline.",
            zh="不用学习：把目标位置按长度比例对应到源句。用作基线。",
        ),
        "hard": LocalizedText(
            en="All weight on the key with the highest score; it has no gradient.",
            zh="全部权重给分数最高的键；没有梯度。",
        ),
        "hard_sampled": LocalizedText(
            en="All weight on one sampled key, trained with REINFORCE.",
            zh="全部权重给随机采样的一个键，用 REINFORCE 训练。",
        ),
        "local_monotonic": LocalizedText(
            en="A window around the same position in the source: source and target are assumed to be parallel.",
            zh="源句中相同位置附近的窗口：假定源句与译文词序大致相同。",
        ),
        "local_predictive": LocalizedText(
            en="A window around a predicted position, with a Gaussian that favours its centre.",
            zh="预测一个位置，取它周围的窗口，并用高斯函数使权重偏向中心。",
        ),
        "sparsemax": LocalizedText(
            en="The distribution nearest to the scores: keys with low scores have weight exactly 0.",
            zh="离分数最近的概率分布：分数低的键权重恰好为 0。",
        ),
        "hard_gumbel": LocalizedText(
            en="A hard choice with Gumbel noise in the scores, and the gradient of the soft choice.",
            zh="给分数加 Gumbel 噪声后做硬选择，梯度取自软选择。",
        ),
        "monotonic": LocalizedText(
            en="A cursor moves over the source and never back; the weights sum over all of its paths.",
            zh="一个光标在源句上只前进、不后退；权重是所有路径的概率之和，用动态规划计算。",
        ),
        "entmax": LocalizedText(
            en="A family from softmax (alpha = 1) to sparsemax (alpha = 2).",
            zh="从 softmax（alpha = 1）到 sparsemax（alpha = 2）的一族函数。",
        ),
        "uniform": LocalizedText(
            en="Not learned: every key has the same weight, so the context is the mean. A control.",
            zh="不用学习：所有键权重相同，上下文就是平均值。用作对照。",
        ),
        "random": LocalizedText(
            en="Not learned: weights drawn once for each pair of positions. A control.",
            zh="不用学习：每对位置的权重只随机抽取一次，之后固定不变。用作对照。",
        ),
        "sigmoid": LocalizedText(
            en="Each key has a weight of its own between 0 and 1; the weights need not sum to 1.",
            zh="每个键各有一个 0 到 1 之间的权重；权重之和不必为 1。",
        ),
    },
    "mask": {
        "padding": LocalizedText(
            en="Excludes the padding of shorter sentences in a batch.",
            zh="排除一批句子中较短者的填充部分。",
        ),
        "window": LocalizedText(
            en="Only keys within a distance of the query, so the cost grows linearly with the length.",
            zh="只允许与查询的距离在一定范围内的键，开销随长度线性增长。",
        ),
        "causal": LocalizedText(
            en="No key after the query, so that all positions of a text can be trained in parallel.",
            zh="不允许查询之后的键，因此文本的所有位置可以并行训练。",
        ),
        "prefix": LocalizedText(
            en="Every query may attend to a prefix: with the causal mask, the prompt is bidirectional.",
            zh="所有查询都可以关注前缀：与因果掩码合用，提示部分是双向的。",
        ),
        "dilated": LocalizedText(
            en="A window with gaps: a longer range at the same cost.",
            zh="带间隔的窗口：同样的开销，范围更大。",
        ),
        "predicate": LocalizedText(
            en="Any rule on two positions, given as a function.",
            zh="关于两个位置的任意规则，写成一个函数。",
        ),
    },
    "position": {
        "learned": LocalizedText(
            en="A learned vector for each position, added to the embedding; limited to the trained length.",
            zh="每个位置一个可学习的向量，加到词嵌入上；不能超过训练时的长度。",
        ),
        "sinusoidal": LocalizedText(
            en="Sines and cosines of different frequencies, added to the embedding; nothing is learned.",
            zh="不同频率的正弦与余弦，加到词嵌入上；无需学习。",
        ),
        "relative": LocalizedText(
            en="Learned vectors for the distance between query and key, in the scores and values.",
            zh="为查询与键之间的距离学习向量，用于分数和值。",
        ),
        "rotary": LocalizedText(
            en="Queries and keys are rotated by their position, so it enters their product only by the distance.",
            zh="按位置旋转查询与键，于是位置只通过两者的距离进入点积。",
        ),
        "alibi": LocalizedText(
            en="A penalty linear in the distance, with a slope per head; nothing is learned, longer texts work.",
            zh="随距离线性增长的惩罚，每个头一个斜率；无需学习，可用于更长的文本。",
        ),
    },
}
"""Texts of the timeline by family and name."""
