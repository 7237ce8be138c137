"""Lessons in teaching order: guided pages whose numbers are computed with the reader's settings."""

from collections.abc import Mapping

import torch

from regard._utils import check_name
from regard.studio.lessons import (
    apple,
    article,
    bahdanau,
    cicada,
    cues,
    journey,
    kernel_fit,
    masked_softmax,
    projection,
    square_root,
)
from regard.studio.lessons.blocks import LessonEntry, fill_settings, one_thread
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import LessonPage

LESSONS = {
    "cues": LessonEntry(
        title=LocalizedText(en="Voluntary and involuntary cues", zh="自主提示与非自主提示"),
        summary=LocalizedText(
            en="Keys, a query and values: a cup of coffee among papers.",
            zh="键、查询与值：纸堆里的一杯咖啡。",
        ),
        controls=cues.CONTROLS,
        build=cues.build,
    ),
    "kernel_fit": LessonEntry(
        title=LocalizedText(en="Kernel regression", zh="核回归"),
        summary=LocalizedText(
            en="Attention of 1964: a curve from nearby points. How narrow should the kernel be?",
            zh="1964 年的注意力：由附近的点得到曲线。核应该多窄？",
        ),
        controls=kernel_fit.CONTROLS,
        build=kernel_fit.build,
    ),
    "projection": LessonEntry(
        title=LocalizedText(en="Projection matrices", zh="投影矩阵"),
        summary=LocalizedText(
            en="What the matrices before attention do, with the attributes of a game character.",
            zh="用游戏角色的属性说明注意力之前的矩阵做什么。",
        ),
        controls=projection.CONTROLS,
        build=projection.build,
    ),
    "apple": LessonEntry(
        title=LocalizedText(en="Scores and weights: 我吃了一个苹果 (I ate an apple)", zh="分数与权重：我吃了一个苹果"),
        summary=LocalizedText(
            en="At each word a context is the weighted sum of the words so far.",
            zh="每个词的上下文是到目前为止各词的加权和。",
        ),
        controls=apple.CONTROLS,
        build=apple.build,
    ),
    "article": LessonEntry(
        title=LocalizedText(en="A or an? Translating 一个", zh="“一个”译成 a 还是 an？"),
        summary=LocalizedText(
            en="It depends on the noun that follows, so the model must attend to it.",
            zh="这取决于后面的名词，所以模型必须关注它。",
        ),
        controls=article.CONTROLS,
        build=article.build,
    ),
    "masked_softmax": LessonEntry(
        title=LocalizedText(en="Masked softmax", zh="掩码 softmax"),
        summary=LocalizedText(
            en="How padding gets weight 0, and what happens if everything is masked.",
            zh="填充怎样得到权重 0，以及全部被掩码时会怎样。",
        ),
        controls=masked_softmax.CONTROLS,
        build=masked_softmax.build,
    ),
    "journey": LessonEntry(
        title=LocalizedText(en="The causal mask", zh="因果掩码"),
        summary=LocalizedText(
            en="Each word attends to itself and the words before, never to those after.",
            zh="每个词只关注自己和前面的词，不关注后面的词。",
        ),
        controls=journey.CONTROLS,
        build=journey.build,
    ),
    "bahdanau": LessonEntry(
        title=LocalizedText(en="Bahdanau attention, step by step", zh="逐步计算 Bahdanau 注意力"),
        summary=LocalizedText(
            en="One hidden layer compares the decoder's state with every source word.",
            zh="用一个隐藏层比较解码器状态与每个源词。",
        ),
        controls=bahdanau.CONTROLS,
        build=bahdanau.build,
    ),
    "cicada": LessonEntry(
        title=LocalizedText(en="Long distances: 秋蝉 (cicadas) and 它们 (they)", zh="长距离依赖：“秋蝉”与“它们”"),
        summary=LocalizedText(
            en="Convolutions need several layers to connect both words, attention needs one step.",
            zh="卷积要多层才能把两个词联系起来，注意力只需一步。",
        ),
        controls=cicada.CONTROLS,
        build=cicada.build,
    ),
    "square_root": LessonEntry(
        title=LocalizedText(en="Why scores are divided by √d", zh="为什么分数要除以 √d"),
        summary=LocalizedText(
            en="The variance of a dot product and the entropy of its softmax, measured.",
            zh="实测点积的方差与 softmax 权重的熵。",
        ),
        controls=square_root.CONTROLS,
        build=square_root.build,
    ),
}


def lesson(name: str, settings: Mapping[str, float]) -> LessonPage:
    """The page of a lesson with these settings; others have the default of their control."""
    check_name(name, LESSONS, "lesson")
    entry = LESSONS[name]
    with torch.no_grad(), one_thread():
        blocks = entry.build(fill_settings(entry.controls, settings))
    return LessonPage(name=name, title=entry.title, controls=list(entry.controls), blocks=blocks)


__all__ = [
    "LESSONS",
    "LessonEntry",
    "fill_settings",
    "lesson",
    "one_thread",
]
