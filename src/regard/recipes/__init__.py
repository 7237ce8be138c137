"""Functions that return a complete run, and what is done with one: train it, load it, use it, evaluate it."""

from regard.recipes.evaluate import evaluate, steps_of
from regard.recipes.fit import Fitted, count_parameters, fit
from regard.recipes.folder import load, load_as
from regard.recipes.home import DEMO_SYSTEMS, home, last_demo, remember_demo
from regard.recipes.language.evaluate import evaluate_language
from regard.recipes.language.run import LanguageRun
from regard.recipes.language.writer import Continuation, Writer
from regard.recipes.override import override
from regard.recipes.run import Run
from regard.recipes.sentences.classifier import Classification, Classifier
from regard.recipes.sentences.evaluate import evaluate_sentences
from regard.recipes.sentences.run import SentenceRun
from regard.recipes.table import RECIPES, Recipe, make_run
from regard.recipes.tasks import TASKS, Task, task_of
from regard.recipes.translation import Translation
from regard.recipes.translator import Translator, make_search

__all__ = [
    "DEMO_SYSTEMS",
    "RECIPES",
    "TASKS",
    "Classification",
    "Classifier",
    "Continuation",
    "Fitted",
    "LanguageRun",
    "Recipe",
    "Run",
    "SentenceRun",
    "Task",
    "Translation",
    "Translator",
    "Writer",
    "count_parameters",
    "evaluate",
    "evaluate_language",
    "evaluate_sentences",
    "fit",
    "home",
    "last_demo",
    "load",
    "load_as",
    "make_run",
    "make_search",
    "override",
    "remember_demo",
    "steps_of",
    "task_of",
]
