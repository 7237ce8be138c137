"""The blocks of a lesson, for tests."""

import torch

from regard.studio.lessons import lesson


def blocks(name, kind, **settings):
    page = lesson(name, {control: float(value) for control, value in settings.items()})
    return [block for block in page.blocks if block.kind == kind]


def table(name, index, **settings):
    return torch.tensor(
        [[float("nan") if cell is None else cell for cell in row] for row in values_of(name, index, settings)]
    )


def values_of(name, index, settings):
    return blocks(name, "matrix", **settings)[index].values


def correct_answer(name, index=0, **settings):
    block = blocks(name, "question", **settings)[index]
    return block.choices[block.correct].en
