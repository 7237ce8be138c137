"""What each experiment asks, in Chinese; in English it says so itself."""

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
