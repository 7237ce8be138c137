"""Lessons in teaching order: guided pages whose numbers are computed with the reader's settings."""

from collections.abc import Mapping

import torch

from regard._utils import check_name
from regard.studio.code_paths import path_of
from regard.studio.lessons import (
    apple,
    article,
    bahdanau,
    cicada,
    context,
    cues,
    dictionary,
    dropout,
    embedding_norms,
    equal_shares,
    experts,
    generation,
    journey,
    kernel_fit,
    key_length,
    mail,
    masked_softmax,
    north,
    path_lengths,
    projection,
    six_words,
    square_root,
    state_rules,
    word_order,
)
from regard.studio.lessons.blocks import LessonEntry, fill_settings, one_thread
from regard.studio.schema.pages import LessonPage

LESSONS = {
    "cues": cues.LESSON,
    "kernel_fit": kernel_fit.LESSON,
    "dictionary": dictionary.LESSON,
    "projection": projection.LESSON,
    "generation": generation.LESSON,
    "north": north.LESSON,
    "equal_shares": equal_shares.LESSON,
    "bahdanau": bahdanau.LESSON,
    "mail": mail.LESSON,
    "apple": apple.LESSON,
    "article": article.LESSON,
    "context": context.LESSON,
    "six_words": six_words.LESSON,
    "masked_softmax": masked_softmax.LESSON,
    "journey": journey.LESSON,
    "dropout": dropout.LESSON,
    "square_root": square_root.LESSON,
    "key_length": key_length.LESSON,
    "experts": experts.LESSON,
    "word_order": word_order.LESSON,
    "embedding_norms": embedding_norms.LESSON,
    "cicada": cicada.LESSON,
    "path_lengths": path_lengths.LESSON,
    "state_rules": state_rules.LESSON,
}


def lesson(name: str, settings: Mapping[str, float]) -> LessonPage:
    """The page of a lesson with these settings; others have the default of their control."""
    check_name(name, LESSONS, "lesson")
    entry = LESSONS[name]
    with torch.no_grad(), one_thread():
        blocks = entry.build(fill_settings(entry.controls, settings))
    return LessonPage(
        name=name,
        title=entry.title,
        controls=list(entry.controls),
        blocks=blocks,
        # the lesson's own file comes last; a set would lose the order
        code=list(dict.fromkeys(map(path_of, (*entry.code, entry.build)))),
        experiment=entry.experiment,
    )


__all__ = [
    "LESSONS",
    "LessonEntry",
    "fill_settings",
    "lesson",
    "one_thread",
]
