"""Lessons: the worked examples as guided pages, each recomputed with the reader's settings, in teaching order."""

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
from regard.studio.schema.pages import Lesson

LESSONS = {
    "cues": LessonEntry(
        title=LocalizedText(en="Two kinds of cue", zh="两种提示"),
        summary=LocalizedText(
            en="What stands out and what you look for: keys, a query, values.",
            zh="自己显眼的与你要找的：键、查询与值。",
        ),
        controls=cues.CONTROLS,
        build=cues.build,
    ),
    "kernel_fit": LessonEntry(
        title=LocalizedText(en="A curve by near points", zh="用近处的点画曲线"),
        summary=LocalizedText(
            en="Kernel regression, 1964, is attention; how narrow should the kernel be?",
            zh="1964 年的核回归就是注意力；核该多窄？",
        ),
        controls=kernel_fit.CONTROLS,
        build=kernel_fit.build,
    ),
    "projection": LessonEntry(
        title=LocalizedText(en="Three numbers seen as two", zh="三个数看成两个数"),
        summary=LocalizedText(
            en="What the matrices before attention do, with a character of a game.",
            zh="借游戏角色看懂注意力之前的投影矩阵。",
        ),
        controls=projection.CONTROLS,
        build=projection.build,
    ),
    "apple": LessonEntry(
        title=LocalizedText(en="我吃了一个苹果: weights", zh="我吃了一个苹果：权重"),
        summary=LocalizedText(
            en="Each word makes a context of the words so far.",
            zh="每个词用目前为止的词合成上下文。",
        ),
        controls=apple.CONTROLS,
        build=apple.build,
    ),
    "article": LessonEntry(
        title=LocalizedText(en="一个: a or an?", zh="“一个”译成 a 还是 an？"),
        summary=LocalizedText(
            en="Only the noun behind it can tell, so it must be looked at.",
            zh="只有后面的名词知道答案，所以必须看到它。",
        ),
        controls=article.CONTROLS,
        build=article.build,
    ),
    "masked_softmax": LessonEntry(
        title=LocalizedText(en="Masked softmax", zh="掩码 softmax"),
        summary=LocalizedText(
            en="How a word is kept from being read, and what an empty row does.",
            zh="怎样让一个词不被读到，以及空行会怎样。",
        ),
        controls=masked_softmax.CONTROLS,
        build=masked_softmax.build,
    ),
    "journey": LessonEntry(
        title=LocalizedText(en="Your journey starts: the causal mask", zh="Your journey starts：因果掩码"),
        summary=LocalizedText(
            en="A word reads itself and what came before, never what is to come.",
            zh="一个词只读自己和前文，绝不读后文。",
        ),
        controls=journey.CONTROLS,
        build=journey.build,
    ),
    "bahdanau": LessonEntry(
        title=LocalizedText(en="Bahdanau's attention, step by step", zh="逐步计算 Bahdanau 注意力"),
        summary=LocalizedText(
            en="One hidden layer compares the decoder's state with every source word.",
            zh="用一层隐藏单元比较解码器状态与每个源词。",
        ),
        controls=bahdanau.CONTROLS,
        build=bahdanau.build,
    ),
    "cicada": LessonEntry(
        title=LocalizedText(en="秋蝉 and 它们: seeing far", zh="“秋蝉”与“它们”：看得远"),
        summary=LocalizedText(
            en="Windows must be stacked to see both words; attention needs one step.",
            zh="卷积窗口要层层堆叠才能看到两个词，注意力只需一步。",
        ),
        controls=cicada.CONTROLS,
        build=cicada.build,
    ),
    "square_root": LessonEntry(
        title=LocalizedText(en="Why the square root of d", zh="为什么要除以根号 d"),
        summary=LocalizedText(
            en="The variance of a dot product and the entropy of its softmax, measured.",
            zh="实测点积的方差与 softmax 之后的熵。",
        ),
        controls=square_root.CONTROLS,
        build=square_root.build,
    ),
}


def lesson(name: str, settings: Mapping[str, float]) -> Lesson:
    """A lesson's page as the reader's settings make it; what is not set is as its control says."""
    check_name(name, LESSONS, "lesson")
    entry = LESSONS[name]
    with torch.no_grad(), one_thread():
        blocks = entry.build(fill_settings(entry.controls, settings))
    return Lesson(name=name, title=entry.title, controls=list(entry.controls), blocks=blocks)


__all__ = [
    "LESSONS",
    "LessonEntry",
    "fill_settings",
    "lesson",
    "one_thread",
]
