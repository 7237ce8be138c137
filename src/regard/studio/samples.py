"""Something to begin with: sentences that a system can read."""

from dataclasses import replace
from itertools import islice

from regard.data import Copy, Dates, Reverse
from regard.recipes import LanguageRun, Run, SentenceRun
from regard.recipes.made import MadeCorpus

COUNT = 6
SENTENCES = {
    "en": (
        "A man in a blue shirt is standing on a ladder.",
        "Two children play with a dog in the snow.",
        "The woman who sells flowers is reading a newspaper.",
        "What time does the train leave?",
    ),
    "de": (
        "Ein Mann in einem blauen Hemd steht auf einer Leiter.",
        "Zwei Kinder spielen im Schnee mit einem Hund.",
        "Die Frau, die Blumen verkauft, liest eine Zeitung.",
    ),
    "fr": (
        "Un homme en chemise bleue est debout sur une échelle.",
        "Deux enfants jouent avec un chien dans la neige.",
    ),
    "zh": ("我吃了一个苹果。", "两个孩子在雪地里和狗玩。", "火车几点开？"),
}
BEGINNINGS = {
    "ptb": ("the company said it will", "the stock market", "mr. smith said the new"),
    "topics": ("The for statement is used to", "An object is a", "Changed in version 3."),
    "tinyshakespeare": ("ROMEO:\nBut, soft! what light", "To be, or not to be", "KING HENRY:\n"),
}
CLASSIFIED = (
    "What is the capital of France ?",
    "Who wrote Hamlet ?",
    "How many people live in Tokyo ?",
    "a charming and moving story .",
    "the plot is dull and far too long .",
)


def modest(content: Dates | Reverse | Copy) -> Dates | Reverse | Copy:
    """Samples of a length that one can read, whatever the config asks of the training."""
    if isinstance(content, Dates):
        return replace(content, max_dates=min(content.max_dates, 2))
    return replace(content, max_length=min(content.max_length, 20), min_length=min(content.min_length, 20))


def samples_of(run: Run | LanguageRun | SentenceRun) -> list[str]:
    """Made ones were never learnt from; the others are our own. Of one's own text nothing is known."""
    if isinstance(run, LanguageRun):
        return list(BEGINNINGS.get(run.recipe.removesuffix("_small"), ()))
    if isinstance(run, SentenceRun):
        return list(CLASSIFIED)
    if isinstance(run.data, MadeCorpus):
        content = modest(run.data.content)
        return [pair.source for pair in islice(content.pairs(COUNT, split="test", seed=run.data.seed), COUNT)]
    return list(SENTENCES.get(run.data.languages[0].split("_")[0], ()))
