"""秋蝉 .. 它们: windows must be stacked to see both, attention sees them in one step."""

from collections.abc import Mapping
from itertools import count

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.scores import Dot
from regard.studio.lessons.blocks import both, chart, control, formula, matrix, number, question, same, series, text
from regard.studio.schema.pages import Block, ChartBlock

PARTS = (
    ("秋蝉", "的", "衰弱", "的", "残声", "，", "更是", "北国", "的", "特产", "，"),
    ("因为", "北平", "处处", "全", "长着", "树", "，", "屋子", "又", "低", "，"),
    ("所以", "无论", "在", "什么", "地方", "，", "都", "听得见", "它们", "的", "啼唱", "。"),
)
"""Yu Dafu, 故都的秋, 1934."""
SENTENCE = [word for part in PARTS for word in part]
CICADA, THEY = SENTENCE.index("秋蝉"), SENTENCE.index("它们")
NOUNS = ("秋蝉", "树", "屋子")
KEYS = torch.tensor([[3.0, 0.0], [0.0, 3.0], [0.0, 1.0]])
"""Of each noun: does it sing, does it give shade?"""
ENDINGS = {"听得见它们的啼唱": (1.0, 0.0), "看见它们的树荫": (0.0, 1.0)}
"""How the sentence may end, and what 它们 then asks for."""

CONTROLS = (
    control("kernel", both("Words in a window k", "卷积窗口的词数 k"), low=2.0, high=15.0, step=1.0, value=3.0),
)

INTRODUCTION = text(
    "".join(SENTENCE) + " (The failing voice of the autumn cicada is a thing of the north: trees grow everywhere in "
    "Beiping and the houses are low, so wherever you are you can hear them sing.) What does 它们, them, stand for?",
    "".join(SENTENCE) + "“它们”指的是什么？",
)
FORMULA = formula(r"r_L = 1 + L\,(k - 1)")


def build(settings: Mapping[str, float]) -> list[Block]:
    """Layers that windows need, and what one step of attention does."""
    kernel, distance = int(settings["kernel"]), THEY - CICADA
    return [
        INTRODUCTION,
        text(
            f"秋蝉 is word {CICADA + 1}, 它们 is word {THEY + 1}: {distance} apart. A convolution sees a window of "
            f"$k = {kernel}$ words. If no window holds both, a second layer looks at windows of windows, and so on.",
            f"“秋蝉”是第 {CICADA + 1} 个词，“它们”是第 {THEY + 1} 个，相距 {distance}。"
            f"卷积一次只看 $k = {kernel}$ 个词的窗口。如果没有哪个窗口同时包含两者，就要再叠一层，"
            "看“窗口的窗口”，如此类推。",
        ),
        layers_question(kernel),
        FORMULA,
        sight(kernel),
        text(
            f"A recurrent network passes the word on {distance} times. Attention compares 它们 with every word at "
            "once: one step, however far apart they are. But which word should it pick?",
            f"循环网络要把信息接力传递 {distance} 次。注意力让“它们”同时与每个词比较：无论相距多远，只需一步。"
            "但该选哪个词呢？",
        ),
        *reference_blocks(),
    ]


def layers_needed(kernel: int) -> int:
    """Stack windows until some unit has heard of both words, by running them."""
    heard = F.one_hot(torch.tensor([CICADA, THEY]), len(SENTENCE))
    for layers in count(1):
        heard = F.pad(heard, (kernel - 1, kernel - 1)).unfold(-1, kernel, 1).amax(dim=-1)
        if heard.prod(dim=0).any():
            return layers
    raise AssertionError("every finite distance is bridged")


def layers_question(kernel: int) -> Block:
    """How many layers?"""
    needed, distance = layers_needed(kernel), THEY - CICADA
    choices = sorted({needed // 2, needed, 2 * needed, 4 * needed})
    return question(
        both(
            f"How many layers of $k = {kernel}$ until one unit sees both?",
            f"$k = {kernel}$ 时，要叠几层才能同时看到两者？",
        ),
        [same(str(choice)) for choice in choices],
        choices.index(needed),
        both(
            f"Each layer adds {kernel - 1} words, so {distance} of distance take {needed}.",
            f"每层增加 {kernel - 1} 个词的视野，距离 {distance} 需要 {needed} 层。",
        ),
    )


def sight(kernel: int) -> ChartBlock:
    """How far a unit sees, layer by layer, and what it takes."""
    layers = torch.arange(layers_needed(kernel) + 1).float()
    return chart(
        both("Words that one unit sees after L layers, r", "L 层之后一个单元能看到的词数 r"),
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


def reference_weights() -> Float[Tensor, "2 3"]:
    """How 它们 shares itself among the nouns under each ending."""
    weights = attend(torch.tensor(list(ENDINGS.values())), KEYS, KEYS, score=Dot(), return_weights=True).weights
    assert weights is not None
    return weights


def reference_blocks() -> list[Block]:
    """The end of the sentence decides."""
    weights = reference_weights()
    sung, shaded = (int(row.argmax()) for row in weights)
    return [
        question(
            both(
                "Let the sentence end 看见它们的树荫, see their shade, instead. Which noun does 它们 read most?",
                "如果句末改成“看见它们的树荫”，“它们”最关注哪个名词？",
            ),
            [same(noun) for noun in NOUNS],
            shaded,
            both(
                f"啼唱 (sing) asks for what sings, {NOUNS[sung]} ({number(weights[0, sung])}); 树荫 (shade) asks for "
                f"what gives it, {NOUNS[shaded]} ({number(weights[1, shaded])}).",
                f"“啼唱”要找会叫的：{NOUNS[sung]}（{number(weights[0, sung])}）；“树荫”要找能遮阴的："
                f"{NOUNS[shaded]}（{number(weights[1, shaded])}）。",
            ),
        ),
        matrix(
            both("What 它们 reads (numbers set by hand)", "“它们”读什么（数字为手工设定）"),
            list(ENDINGS),
            NOUNS,
            weights,
        ),
        text(
            "The weights of a convolution are the same for every sentence. Those of attention come from the words, so "
            "one other word at the end sends 它们 elsewhere.",
            "卷积的权重对任何句子都一样；注意力的权重由词本身算出，句末换一个词，“它们”就看向别处。",
        ),
    ]
