"""Projection matrices: what the matrices before attention do."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import MultiHeadAttention
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    control,
    formula,
    matrix,
    number,
    numbers,
    question,
    same,
    text,
)
from regard.studio.schema.pages import Control, LessonBlock

NATURE = (both("strength", "力量"), both("agility", "敏捷"), both("intelligence", "智力"))
BATTLE = (both("attack", "攻击力"), both("dodge", "闪避率"))
WEIGHTS = torch.tensor([[0.8, 0.2, 0.0], [0.0, 0.9, 0.1]])
YOU, ROGUE, MAGE = both("you", "你"), both("rogue", "刺客"), both("mage", "法师")
OTHERS = ((40.0, 95.0, 30.0), (15.0, 40.0, 100.0))
"""A rogue and a mage."""
RISE = 10.0


def slider(name: str, label: tuple[str, str], value: float) -> Control:
    """One attribute of the character."""
    return control(name, both(*label), low=0.0, high=100.0, step=5.0, value=value)


CONTROLS = (
    slider("strength", ("Strength", "力量"), 100.0),
    slider("agility", ("Agility", "敏捷"), 50.0),
    slider("intelligence", ("Intelligence", "智力"), 10.0),
)


OPENING: tuple[LessonBlock, ...] = (
    text(
        "A game character has strength, agility and intelligence. A battle needs other numbers: attack and dodge. A "
        "matrix computes them from the attributes.",
        "游戏角色有力量、敏捷和智力。战斗需要的是另外的数：攻击力和闪避率。一个矩阵由属性计算出它们。",
    ),
    matrix(both("The matrix W", "权重矩阵 W"), BATTLE, NATURE, WEIGHTS),
    formula(r"y = W x"),
)
CLOSING = text(
    "Attention has three such matrices. From the same word, $W_Q$ computes a query (what it searches for), $W_K$ a key "
    "(what it is matched by) and $W_V$ a value (what it contributes). They are learned.",
    "注意力里有三个这样的矩阵。对同一个词，$W_Q$ 计算查询（要找什么），$W_K$ 计算键（凭什么被匹配），"
    "$W_V$ 计算值（贡献什么）。它们是学出来的。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """The projection of a game character."""
    character = torch.tensor([settings[control.name] for control in CONTROLS])
    attack, dodge = (
        f"{sum_of(row, character)} = {number(result, 1)}"
        for row, result in zip(WEIGHTS, project(character), strict=True)
    )
    everyone = torch.stack([character, *map(torch.tensor, OTHERS)])
    return [
        *OPENING,
        text(
            f"$x$ = {numbers(character, 0)} gives attack {attack} and dodge {dodge}.",
            f"$x$ = {numbers(character, 0)} 得到攻击力 {attack}，闪避率 {dodge}。",
        ),
        rise(character),
        matrix(
            both("Three characters, projected", "三个角色的投影"),
            (YOU, ROGUE, MAGE),
            BATTLE,
            project(everyone),
        ),
        CLOSING,
    ]


def rise(character: Float[Tensor, " 3"]) -> LessonBlock:
    """The effect of more agility."""
    # the projection is linear: the difference does not depend on the character
    more = project(character + torch.tensor([0.0, RISE, 0.0])) - project(character)
    # wrong choices: the same rise for both, the two exchanged, and dodge alone
    choices = torch.stack([torch.tensor([RISE, RISE]), more.flip(0), more, torch.tensor([0.0, RISE])])
    column = numbers(WEIGHTS[:, 1], 1)
    return question(
        both(
            f"Agility rises by {RISE:g}. By how much do (attack, dodge) rise?",
            f"敏捷增加 {RISE:g}，（攻击力，闪避率）各增加多少？",
        ),
        [same(numbers(choice, 0)) for choice in choices],
        int((choices - more).abs().sum(dim=1).argmin()),
        both(
            f"The agility column of W is {column}, times {RISE:g}: {numbers(more, 0)}, for every character.",
            f"W 的敏捷列是 {column}，乘以 {RISE:g} 得 {numbers(more, 0)}，对任何角色都一样。",
        ),
    )


def project(characters: Float[Tensor, "*N 3"]) -> Float[Tensor, "*N 2"]:
    """Attack and dodge."""
    # (N, 3) @ (3, 2)
    return characters @ WEIGHTS.T


def sum_of(weights: Float[Tensor, " N"], values: Float[Tensor, " N"]) -> str:
    """A weighted sum, written out."""
    pairs = zip(weights.tolist(), values.tolist(), strict=True)
    return " + ".join(f"{number(weight, 1)}·{value:g}" for weight, value in pairs)


LESSON = LessonEntry(
    title=both("Projection matrices", "投影矩阵"),
    summary=both(
        "What the matrices before attention do, with the attributes of a game character.",
        "用游戏角色的属性说明注意力之前的矩阵做什么。",
    ),
    controls=CONTROLS,
    build=build,
    code=(MultiHeadAttention,),
)
