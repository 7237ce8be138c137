"""Labels of tables and figures in Chinese; verdicts are written in both languages where they are computed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

LABELS = {
    # columns and cells
    "pooling": "汇聚方式",
    "points": "样本点数",
    "bandwidth": "带宽",
    "error": "误差",
    "all": "全部",
    "average": "平均汇聚",
    "fixed kernel": "固定核",
    "learned kernel": "可学习的核",
    "bandwidth stays": "带宽不变",
    "bandwidth shrinks": "带宽缩小",
    "size d": "维度 d",
    "score": "评分函数",
    "variance": "方差",
    "largest weight": "最大权重",
    "entropy": "熵",
    "gradient": "梯度",
    "dot": "点积",
    "scaled dot": "缩放点积",
    "embedding": "词嵌入",
    "times sqrt(d)": "乘以 √d 之后",
    "position": "位置编码",
    "ratio before": "缩放前之比",
    "ratio after": "缩放后之比",
    "positions": "位置编码",
    "deviation": "偏差",
    "equivariant": "置换等变",
    "yes": "是",
    "no": "否",
    "none": "无",
    "learned": "可学习",
    "sinusoidal": "正弦",
    "relative": "相对位置",
    "rotary": "旋转（RoPE）",
    "alibi": "ALiBi",
    "causal mask": "因果掩码",
    "system": "系统",
    "parameters": "参数量",
    "perplexity": "困惑度",
    "uniform weights": "均匀权重",
    "Attention": "注意力",
    "last 1": "最近 1 个词",
    "last 2": "最近 2 个词",
    "last 5": "最近 5 个词",
    "last 10": "最近 10 个词",
    "last 15": "最近 15 个词",
    "model": "模型",
    "no mask": "无掩码",
    "best possible": "理论最优",
    "training loss": "训练损失",
    "loss, causal mask": "因果掩码下的损失",
    "legal steps": "合法步的比例",
    # labels of figures
    "truth": "真实曲线",
    "One sample of {} points (dots)": "一个样本，{} 个点（圆点）",
    "bandwidth stays 1": "带宽恒为 1",
    "bandwidth shrinks as $n^{-1/5}$": "带宽按 $n^{-1/5}$ 缩小",
    "Error by sample size (bars: spread)": "误差随样本量的变化（误差棒：标准差）",
    "points n": "样本点数 n",
    "root mean square error": "均方根误差",
    "variance = d": "方差 = d",
    "Variance of the scores": "分数的方差",
    "Entropy of the weights": "权重的熵",
    "Gradient at the scores": "对分数的梯度",
    "entropy (nats)": "熵（纳特）",
    "norm of the gradient": "梯度的范数",
    "size d of queries and keys": "查询与键的维度 d",
    "embedding times sqrt(d)": "词嵌入乘以 √d",
    "position: sqrt(d/2)": "位置编码：√(d/2)",
    "Norms (bars: spread over tokens)": "范数（误差棒：各词元的标准差）",
    "norm": "范数",
    "equal": "相等",
    "scaled": "缩放后",
    "unscaled": "缩放前",
    "Norm of the embedding relative to the position": "词嵌入与位置编码的范数之比",
    "norm of embedding / norm of position": "词嵌入的范数 / 位置编码的范数",
    "not equivariant": "非置换等变",
    "Outputs for permuted inputs against permuted outputs": "打乱输入后的输出，与打乱后的输出之差",
    "relative deviation": "相对偏差",
    "Weight on the last n words (bars: spread)": "最近 n 个词上的权重（误差棒：标准差）",
    "share of the weight": "权重占比",
    "On the test (bars: spread), lower is better": "测试集（误差棒：标准差），越低越好",
    "perplexity per word": "每词困惑度",
    "entropy floor": "熵下界",
    "chance": "随机水平",
    "Training loss": "训练损失",
    "step": "训练步数",
    "loss (nats per symbol)": "损失（纳特/符号）",
    "Generation: steps that follow the rule": "生成：符合规则的步",
    "position in the sequence": "序列中的位置",
    "share of legal steps": "合法步的比例",
}
"""Chinese by English; names of systems and letters of formulas are the same in both."""

active_labels: ContextVar[Mapping[str, str] | None] = ContextVar("active_labels", default=None)


@contextmanager
def chinese_labels(more: Mapping[str, str]) -> Iterator[None]:
    """Labels in this context are Chinese; `more` has those of one experiment."""
    token = active_labels.set({**LABELS, **more})
    try:
        yield
    finally:
        active_labels.reset(token)


def label(text: str) -> str:
    """A label in the language of the context; what has no translation is the same in both."""
    labels = active_labels.get()
    return text if labels is None else labels.get(text, text)


def in_chinese() -> bool:
    """True inside `chinese_labels`."""
    return active_labels.get() is not None
