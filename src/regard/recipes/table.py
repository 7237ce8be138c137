"""Every recipe by its name: a function that returns a complete run, and the settings that its data have."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.contracts import check_name
from regard.recipes.corpora import Multi30kCorpus, TatoebaCorpus
from regard.recipes.files import FileCorpus
from regard.recipes.language.corpora import FileTextCorpus, PTBCorpus, ShakespeareCorpus, TopicsCorpus
from regard.recipes.language.ptb import ptb
from regard.recipes.language.shakespeare import tinyshakespeare, tinyshakespeare_small
from regard.recipes.language.text import text, topics
from regard.recipes.made import MadeCorpus
from regard.recipes.multi30k import multi30k
from regard.recipes.sentences.corpora import FileSentenceCorpus
from regard.recipes.sentences.recipe import sentences
from regard.recipes.text import pairs, tatoeba
from regard.recipes.toys import copy, dates, reverse


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A function that returns a complete run for a model, what it is about, and where its text comes from."""

    make: Callable[..., Any]
    corpus: type
    amount: str
    title: str
    origin: str
    task: str = "translation"


RECIPES = {
    "multi30k": Recipe(
        make=multi30k,
        corpus=Multi30kCorpus,
        amount="29,000 pairs",
        title="image captions, en-de, en-fr, de-en ..",
        origin="https://github.com/multi30k/dataset",
    ),
    "tatoeba": Recipe(
        make=tatoeba,
        corpus=TatoebaCorpus,
        amount="29,155 to 169,197 pairs",
        title="everyday sentences, en-zh, en-fr, en-de and back",
        origin="https://www.manythings.org/anki",
    ),
    "pairs": Recipe(
        make=pairs,
        corpus=FileCorpus,
        amount="yours",
        title="your own files: two of lines, or one .tsv or .jsonl",
        origin="--source, --target",
    ),
    "dates": Recipe(
        make=dates,
        corpus=MadeCorpus,
        amount="endless",
        title="dates as people write them, en-zh, all-iso, any of 22 languages",
        origin="made, with babel",
    ),
    "reverse": Recipe(
        make=reverse, corpus=MadeCorpus, amount="endless", title="letters, the last one first", origin="made"
    ),
    "copy": Recipe(make=copy, corpus=MadeCorpus, amount="endless", title="letters as they are", origin="made"),
    "ptb": Recipe(
        make=ptb,
        corpus=PTBCorpus,
        amount="929,589 words",
        title="Penn Treebank, word by word",
        origin="https://www.fit.vutbr.cz/~imikolov/rnnlm",
        task="language",
    ),
    "tinyshakespeare": Recipe(
        make=tinyshakespeare,
        corpus=ShakespeareCorpus,
        amount="1,115,394 letters",
        title="Shakespeare, letter by letter, for a GPU",
        origin="https://github.com/karpathy/char-rnn",
        task="language",
    ),
    "tinyshakespeare_small": Recipe(
        make=tinyshakespeare_small,
        corpus=ShakespeareCorpus,
        amount="1,115,394 letters",
        title="the same for two CPU cores",
        origin="https://github.com/karpathy/char-rnn",
        task="language",
    ),
    "topics": Recipe(
        make=topics,
        corpus=TopicsCorpus,
        amount="some 440,000 letters",
        title="Python's own documentation, which comes with it",
        origin="pydoc_data.topics",
        task="language",
    ),
    "text": Recipe(
        make=text,
        corpus=FileTextCorpus,
        amount="yours",
        title="your own text file",
        origin="--data",
        task="language",
    ),
    "sentences": Recipe(
        make=sentences,
        corpus=FileSentenceCorpus,
        amount="yours",
        title="your own sentences with classes, or TREC, SST ..",
        origin="--data",
        task="sentences",
    ),
}


def make_run(recipe: str, model: str | None = None, **given: Any) -> Any:
    """The run of a recipe; an argument that it does not take is named."""
    check_name(recipe, RECIPES, "recipe")
    make = RECIPES[recipe].make
    known = inspect.signature(make).parameters
    for name in given:
        if name not in known:
            takes = ", ".join(one for one in known if one != "model") or "nothing"
            raise ValueError(f"the recipe {recipe} takes no {name}. It takes {takes}.")
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in given:
            raise ValueError(f"the recipe {recipe} needs {name}. Name it with --{name}.")
    return make(**given) if model is None else make(model, **given)
