"""One or two sentences on each system, mechanism and experiment, in English and Chinese."""

from regard.studio.schema.base import LocalizedText

EXPLANATIONS = {
    "translation": {
        "rctm": LocalizedText(
            en="Convolutions encode the source in one vector, from which a recurrent network generates the target.",
            zh="用卷积把源句编码成一个向量，再由循环网络从它生成译文。",
        ),
        "rnn_encoder_decoder": LocalizedText(
            en="One recurrent network encodes the source in a vector, which is an input of every step of the decoder.",
            zh="一个循环网络把源句编码成一个向量，作为解码器每一步的输入。",
        ),
        "seq2seq": LocalizedText(
            en="Deep LSTMs trained end to end on the reversed source; the source vector is only the initial state.",
            zh="端到端训练的深层 LSTM，源句倒序输入；源句向量只用作解码器的初始状态。",
        ),
        "bahdanau": LocalizedText(
            en="Before every word the decoder attends to all source states and uses their weighted sum.",
            zh="生成每个词之前，解码器关注所有源句状态，并使用它们的加权和。",
        ),
        "luong": LocalizedText(
            en="Simpler scores with the current decoder state as query, and local windows as an alternative.",
            zh="用解码器的当前状态作查询，评分函数更简单，也可以只关注局部窗口。",
        ),
        "lstmn": LocalizedText(
            en="A recurrent network that stores all its past states and attends to them, instead of one state.",
            zh="循环网络保存过去的所有状态并关注它们，而不是只有一个状态。",
        ),
        "conv_seq2seq": LocalizedText(
            en="Convolutions instead of recurrence, so positions are trained in parallel; every decoder layer attends.",
            zh="用卷积代替循环，训练时各位置可以并行；解码器每一层都有注意力。",
        ),
        "transformer": LocalizedText(
            en="Attention without recurrence or convolution: any two words are one step apart, in several heads.",
            zh="只用注意力，没有循环和卷积：任意两个词只隔一步，且有多个头。",
        ),
    },
    "language_modeling": {
        "ngram": LocalizedText(
            en="Counts of the words that follow the last few words, interpolated with shorter contexts; no network.",
            zh="统计前几个词之后各词出现的次数，并与更短的上下文插值；不用神经网络。",
        ),
        "mlp": LocalizedText(
            en="Word embeddings of the last few words and one hidden layer predict the next word.",
            zh="用最近几个词的词嵌入和一个隐藏层预测下一个词。",
        ),
        "lstm": LocalizedText(
            en="The text so far is encoded in a state of fixed size; gates control what is stored and erased.",
            zh="已处理的文本编码在大小固定的状态里，由门控制保存与清除的内容。",
        ),
        "lstmn": LocalizedText(
            en="An LSTM that stores its past states separately and attends to them at every word.",
            zh="逐个保存过去状态的 LSTM，在每个词处关注这些状态。",
        ),
        "attention": LocalizedText(
            en="An LSTM that attends to its last outputs; one vector is key, value and basis of the prediction.",
            zh="关注自己最近输出的 LSTM；同一个向量既是键、又是值，还用来预测。",
        ),
        "key_value": LocalizedText(
            en="The output is split in two: a key for comparison, and a value that is also used for the prediction.",
            zh="把输出一分为二：一半作键用于比较，另一半作值，也用于预测。",
        ),
        "key_value_predict": LocalizedText(
            en="The output is split in three: a key, a value, and a part for the prediction only.",
            zh="把输出一分为三：键、值，以及专门用于预测的部分。",
        ),
        "ngram_rnn": LocalizedText(
            en="Parts of the last few outputs are concatenated, without attention; nearly as good as attention.",
            zh="把最近几个输出的各一部分拼接起来，不用注意力，效果与注意力接近。",
        ),
        "gpt": LocalizedText(
            en="The decoder of the Transformer alone, as GPT (2018), but with the norm first in each layer; keys "
            "and values of the past are cached.",
            zh="与 GPT（2018）一样只用 Transformer 的解码器，但归一化放在每层的开头；过去的键和值保存在缓存里。",
        ),
        "ttt": LocalizedText(
            en="The state is a small model, trained by gradient steps on the text as it is processed.",
            zh="状态本身是一个小模型，处理文本时用梯度步继续训练它。",
        ),
    },
    "text_classification": {
        "bilstm": LocalizedText(
            en="An LSTM in each direction; each feature is its maximum over all words.",
            zh="两个方向各一个 LSTM，每个特征取它在所有词上的最大值。",
        ),
        "cnn": LocalizedText(
            en="Convolution filters over neighbouring words; of each only the maximum over the sentence is used.",
            zh="卷积核作用于相邻的词，每个核只取它在整句上的最大值。",
        ),
        "lstmn_encoder": LocalizedText(
            en="An LSTM that attends to its past states at every word; the class comes from their mean.",
            zh="在每个词处关注过去状态的 LSTM；由状态的平均得出类别。",
        ),
        "structured_self_attention": LocalizedText(
            en="Several rows of attention turn a sentence into a matrix; a penalty discourages overlapping rows.",
            zh="多行注意力把句子变成矩阵；惩罚项抑制各行的重叠。",
        ),
        "transformer_encoder": LocalizedText(
            en="In each layer every word attends to every other, in both directions; the class comes from their mean.",
            zh="每一层里每个词双向关注所有的词；由它们的平均得出类别。",
        ),
    },
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
        "entmax": LocalizedText(
            en="A family from softmax (alpha = 1) to sparsemax (alpha = 2).",
            zh="从 softmax（alpha = 1）到 sparsemax（alpha = 2）的一族函数。",
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

CLAIMS = {
    "pooling": (
        "平均汇聚、固定核与可学习的核",
        "关注近处各点的核优于全体平均，学习得到的宽度优于固定宽度；样本足够多时，核回归收敛到真实曲线，前提是带宽随之缩小。",
    ),
    "scaling": (
        "为何除以 √d",
        "各分量方差为 1 时，d 维点积的方差为 d；d 增大时 softmax 饱和，梯度消失；除以 √d 可以避免这两点。",
    ),
    "embedding_scale": (
        "为何词嵌入乘以 √d",
        "词嵌入的初始范数约为 1，位置编码的范数约为 √d：词嵌入乘以 √d 后与位置编码相当，不会被它淹没。",
    ),
    "permutation": (
        "打乱顺序",
        "自注意力是置换等变的：打乱输入，输出以同样方式打乱；位置编码打破这一点，于是顺序有了作用。",
    ),
    "attention_span": (
        "注意力的跨度",
        "可以关注最近 15 个词的语言模型主要只用最近 5 个；键、值、预测分开有帮助，但没有注意力的 4-gram RNN 与之相当。",
    ),
    "causal_mask": ("没有因果掩码", "没有因果掩码，语言模型会作弊：它照抄下一个词，训练损失骤降，却不能生成文本。"),
}
"""Title and claim of each experiment in Chinese; in English they come from the experiment."""
