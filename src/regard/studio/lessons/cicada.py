"""秋蝉 .. 它们 (cicadas .. they): convolutions connect them in several layers, attention in one step."""

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.scores import Dot
from regard.studio.lessons.blocks import (
    LessonEntry,
    attend_with_weights,
    both,
    chart,
    control,
    formula,
    glossed,
    matrix,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.lessons.path_lengths import layers_needed
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import ChartBlock, LessonBlock

PARTS = (
    ("秋蝉", "的", "衰弱", "的", "残声", "，", "更是", "北国", "的", "特产", "，"),
    ("因为", "北平", "处处", "全", "长着", "树", "，", "屋子", "又", "低", "，"),
    ("所以", "无论", "在", "什么", "地方", "，", "都", "听得见", "它们", "的", "啼唱", "。"),
)
"""Yu Dafu, 故都的秋, 1934."""
SENTENCE = [word for part in PARTS for word in part]
CICADA, THEY = SENTENCE.index("秋蝉"), SENTENCE.index("它们")
NOUNS = ("秋蝉", "树", "屋子")
GLOSSES = {
    "秋蝉": "cicada",
    "树": "tree",
    "屋子": "house",
    "听得见它们的啼唱": "hear them sing",
    "看见它们的树荫": "see their shade",
}
KEYS = torch.tensor([[3.0, 0.0], [0.0, 3.0], [0.0, 1.0]])
"""For each noun: does it sing, does it give shade?"""
ENDINGS = {"听得见它们的啼唱": (1.0, 0.0), "看见它们的树荫": (0.0, 1.0)}
"""Two endings of the sentence, and the query of 它们 for each."""

CONTROLS = (control("kernel", both("Kernel size k", "卷积核大小 k"), low=2.0, high=15.0, step=1.0, value=3.0),)

INTRODUCTION = text(
    "".join(SENTENCE) + " (The failing voice of the autumn cicada is a thing of the north: trees grow everywhere in "
    "Beiping and the houses are low, so wherever you are you can hear them sing.) What does 它们 (them) refer to?",
    "".join(SENTENCE) + "“它们”指的是什么？",
)
FORMULA = formula(r"r_L = 1 + L\,(k - 1)")


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """The layers that convolutions need, and one step of attention."""
    kernel, distance = int(settings["kernel"]), THEY - CICADA
    return [
        INTRODUCTION,
        text(
            f"秋蝉 is word {CICADA + 1}, 它们 is word {THEY + 1}: {distance} apart. A unit of a convolution has a "
            f"window of $k = {kernel}$ words. If no window contains both, a second layer combines windows, and so on.",
            f"“秋蝉”是第 {CICADA + 1} 个词，“它们”是第 {THEY + 1} 个，相距 {distance}。"
            f"卷积的一个单元只覆盖 $k = {kernel}$ 个词的窗口。如果没有哪个窗口同时包含两者，就要再叠一层，"
            "把窗口组合起来，依此类推。",
        ),
        layers_question(kernel),
        FORMULA,
        receptive_field(kernel),
        text(
            f"In a recurrent network the information passes {distance} steps. Attention compares 它们 with every word "
            "at once: one step at any distance. But which word should get the weight?",
            f"在循环网络里，信息要经过 {distance} 步传递。注意力让“它们”同时与每个词比较：无论相距多远，只需一步。"
            "但权重应该给哪个词呢？",
        ),
        *reference_blocks(),
    ]


def layers_question(kernel: int) -> LessonBlock:
    """How many layers?"""
    needed, distance = layers_needed(kernel, THEY - CICADA), THEY - CICADA
    # a set, because some of these numbers may be equal
    choices = sorted({needed // 2, needed, 2 * needed, 4 * needed})
    return question(
        both(
            f"How many layers of $k = {kernel}$ until one unit depends on both?",
            f"$k = {kernel}$ 时，要几层才有一个单元同时依赖两者？",
        ),
        [same(str(choice)) for choice in choices],
        choices.index(needed),
        both(
            f"Each layer adds {kernel - 1} words, so a distance of {distance} needs {needed}.",
            f"每层把感受野扩大 {kernel - 1} 个词，距离 {distance} 需要 {needed} 层。",
        ),
    )


def receptive_field(kernel: int) -> ChartBlock:
    """The receptive field by layer, and the distance."""
    layers = torch.arange(layers_needed(kernel, THEY - CICADA) + 1).float()
    return chart(
        both("Receptive field after L layers, r words", "L 层之后的感受野 r（词数）"),
        both("layers L", "层数 L"),
        both("words r", "词数 r"),
        series(
            both(f"convolution, k = {kernel}", f"卷积，k = {kernel}"), layers, 1 + layers * (kernel - 1), points=False
        ),
        series(
            both("from 秋蝉 to 它们", "从“秋蝉”到“它们”"),
            layers,
            [float(THEY - CICADA + 1)] * len(layers),
            points=False,
        ),
        series(both("attention", "注意力"), [0.0, 1.0], [1.0, float(len(SENTENCE))], points=True),
    )


def names_of(words: Iterable[str]) -> list[LocalizedText]:
    """Chinese words, in English with their meaning."""
    return [glossed(word, GLOSSES[word]) for word in words]


def reference_weights() -> Float[Tensor, "2 3"]:
    """The weights of 它们 on the nouns for each ending."""
    return attend_with_weights(torch.tensor(list(ENDINGS.values())), KEYS, score=Dot())[0]


def reference_blocks() -> list[LessonBlock]:
    """The weights depend on the end of the sentence."""
    weights = reference_weights()
    singing, shading = (int(row.argmax()) for row in weights)
    return [
        question(
            both(
                "Let the sentence end with 看见它们的树荫 (see their shade). Which noun does 它们 attend to most?",
                "如果句末改成“看见它们的树荫”，“它们”最关注哪个名词？",
            ),
            names_of(NOUNS),
            shading,
            both(
                f"The query of 啼唱 (sing) matches what sings, {NOUNS[singing]} ({number(weights[0, singing])}); that "
                f"of 树荫 (shade) what gives shade, {NOUNS[shading]} ({number(weights[1, shading])}).",
                f"“啼唱”的查询匹配会鸣叫的：{NOUNS[singing]}（{number(weights[0, singing])}）；"
                f"“树荫”的查询匹配能遮阴的：{NOUNS[shading]}（{number(weights[1, shading])}）。",
            ),
        ),
        matrix(
            both("Weights of 它们 (numbers set by hand)", "“它们”的权重（数字为手工设定）"),
            names_of(ENDINGS),
            names_of(NOUNS),
            weights,
        ),
        text(
            "The weights of a convolution are the same for every sentence. Those of attention are computed from the "
            "words, so another word at the end changes what 它们 attends to.",
            "卷积的权重对任何句子都一样；注意力的权重由词本身计算，句末换一个词，“它们”关注的对象就变了。",
        ),
    ]


LESSON = LessonEntry(
    title=both("Long distances: 秋蝉 (cicadas) and 它们 (they)", "长距离依赖：“秋蝉”与“它们”"),
    summary=both(
        "Convolutions need several layers to connect both words, attention needs one step.",
        "卷积要多层才能把两个词联系起来，注意力只需一步。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, Dot),
)
