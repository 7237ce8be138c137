"""Path lengths: the steps between two words in a CNN, an RNN and attention, and what is left after them."""

from collections.abc import Mapping
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import attend
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    chart,
    control,
    formula,
    matrix,
    nearest_choice,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.schema.pages import ChartBlock, LessonBlock

NAMES = (both("RNN", "RNN"), both("CNN", "CNN"), both("attention", "注意力"))
FARTHEST = 60

CONTROLS = (
    control(
        "distance", both("Distance of the words n", "两词的距离 n"), low=2.0, high=float(FARTHEST), step=1.0, value=30.0
    ),
    control("kernel", both("Kernel size k", "卷积核大小 k"), low=2.0, high=15.0, step=1.0, value=3.0),
    control("retention", both("Share kept in a step", "每一步保留的比例"), low=0.5, high=1.0, step=0.05, value=0.9),
)

INTRODUCTION = text(
    "A model can relate two words only through a path of computations from one to the other. How long is it?",
    "模型要把两个词联系起来，只能经过从一个词到另一个词的一串计算。这条路径有多长？",
)
FORMULA = formula(
    r"\mathrm{RNN}: n \qquad \mathrm{CNN}: \left\lceil \frac{n}{k - 1} \right\rceil \qquad \mathrm{attention}: 1"
)
CLOSING = text(
    "What attention saves in steps it pays in work: every word is compared with every other, n² scores, where an RNN "
    "has n steps of constant cost. The counts say how short a path is; whether a model learns to use it is a question "
    "for an experiment.",
    "注意力省下的是步数，付出的是计算量：每个词要与每个词比较，共 n² 个分数，而 RNN 是 n 步、每步代价固定。"
    "这些数只说明路径有多短；模型能不能学会利用它，要靠实验回答。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Steps, what is left after them, and both by distance."""
    distance, kernel, retention = int(settings["distance"]), int(settings["kernel"]), settings["retention"]
    steps = all_steps(distance, kernel)
    left = retention**steps
    return [
        INTRODUCTION,
        convolution_question(distance, kernel),
        attention_question(int(steps[-1])),
        matrix(
            both(f"Steps at distance {distance}", f"距离 {distance} 时的步数"),
            NAMES,
            (both("steps", "步数"),),
            steps[:, None],
        ),
        FORMULA,
        chart_of_steps(kernel),
        matrix(
            both(f"What is left if each step keeps {retention:g}", f"每步保留 {retention:g}，最后还剩"),
            NAMES,
            (both("left", "剩余"),),
            left[:, None],
        ),
        text(
            f"If every step keeps a share of {retention:g}, the share left after {distance} words is "
            f"{retention:g}^{steps[0]:g} = {number(left[0], 3)} in the RNN, {number(left[1], 3)} in the CNN and "
            f"{number(left[2], 3)} with attention.",
            f"如果每一步保留 {retention:g}，隔 {distance} 个词之后，RNN 剩下 {retention:g}^{steps[0]:g} = "
            f"{number(left[0], 3)}，CNN 剩下 {number(left[1], 3)}，注意力剩下 {number(left[2], 3)}。",
        ),
        CLOSING,
    ]


def all_steps(distance: int, kernel: int) -> Tensor:
    """The steps of the RNN, the CNN and attention."""
    # a recurrent network passes its state once for every word
    return torch.tensor([distance, layers_needed(kernel, distance), attention_steps(distance)]).float()


def layers_needed(kernel: int, distance: int) -> int:
    """The number of layers until a unit depends on two words, by running the convolutions."""
    # (2, words): for each of the two words, the units that depend on it
    reach = F.one_hot(torch.tensor([0, distance]), distance + 1)
    for layers in count(1):
        # a unit depends on a word if any unit in its window does
        reach = F.pad(reach, (kernel - 1, kernel - 1)).unfold(-1, kernel, 1).amax(dim=-1)
        if reach.prod(dim=0).any():
            return layers
    raise AssertionError("every finite distance is covered")


def attention_steps(distance: int) -> int:
    """The number of layers until the last word depends on the first, by running uniform attention."""
    values = F.one_hot(torch.tensor(0), distance + 1).float()[:, None]
    # equal scores: every key has a positive weight
    same_scores = torch.zeros_like(values)
    for layers in count(1):
        values = attend(same_scores, same_scores, values).context
        if values[-1] > 0:
            return layers
    raise AssertionError("every weight of a softmax is positive")


def convolution_question(distance: int, kernel: int) -> LessonBlock:
    """How many layers of convolution?"""
    needed = layers_needed(kernel, distance)
    # a set, because some of these numbers may be equal
    choices = sorted({needed, needed + 1, 2 * needed, 4 * needed})
    return question(
        both(
            f"Two words are {distance} apart. How many layers of convolution, k = {kernel}, until one unit depends on "
            "both?",
            f"两个词相距 {distance}。卷积核大小 k = {kernel} 时，要几层才有一个单元同时依赖两者？",
        ),
        [same(str(choice)) for choice in choices],
        choices.index(needed),
        both(
            f"{needed}: each layer adds {kernel - 1} words to the window.",
            f"{needed} 层：每层让窗口扩大 {kernel - 1} 个词。",
        ),
    )


def attention_question(steps: int) -> LessonBlock:
    """How many layers of attention?"""
    choices = [1, 2, 10]
    return question(
        both("And how many layers of attention?", "注意力需要几层？"),
        [same(str(choice)) for choice in choices],
        nearest_choice([float(choice) for choice in choices], steps),
        both(
            f"{steps}, at any distance: a query is compared with every key directly.",
            f"{steps} 层，与距离无关：查询直接与每个键比较。",
        ),
    )


def chart_of_steps(kernel: int) -> ChartBlock:
    """The steps by distance."""
    distances = torch.arange(4, FARTHEST + 1, 4)
    steps = torch.stack([all_steps(distance, kernel) for distance in distances.tolist()])
    return chart(
        both(f"Steps by distance, k = {kernel}", f"步数随距离的变化，k = {kernel}"),
        both("distance n", "距离 n"),
        both("steps", "步数"),
        *(series(name, distances, steps[:, index], points=False) for index, name in enumerate(NAMES)),
    )


LESSON = LessonEntry(
    title=both("Path lengths of CNN, RNN and attention", "CNN、RNN 与注意力的路径长度"),
    summary=both(
        "How many steps lie between two words, and how much is left after them.",
        "两个词之间要走几步，走完还剩多少。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend,),
    experiment="distance",
)
