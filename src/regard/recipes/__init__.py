"""Functions that return a complete run, and what is done with one: train it, load it, use it, evaluate it."""

from regard.recipes.corpus_table import CORPORA
from regard.recipes.fit import Fitted, fit
from regard.recipes.folder import entry_of, load, load_as
from regard.recipes.home import DEMO_SYSTEMS, home, last_demo, remember_demo
from regard.recipes.language.run import LanguageRun
from regard.recipes.language.writer import Continuation, Writer
from regard.recipes.override import override
from regard.recipes.prepared import ExampleSource, Task, TrainingSetup, count_parameters, run_info, steps_of
from regard.recipes.reports import read_report, report_of, write_report
from regard.recipes.run import Run
from regard.recipes.sentences.classifier import Classification, Classifier
from regard.recipes.sentences.run import SentenceRun
from regard.recipes.table import RECIPES, Recipe, all_recipes, find_recipe, make_run
from regard.recipes.tasks import TASKS, all_tasks, find_task, task_of
from regard.recipes.translation import Translation
from regard.recipes.translator import Translator, make_search

__all__ = [
    "CORPORA",
    "DEMO_SYSTEMS",
    "RECIPES",
    "TASKS",
    "Classification",
    "Classifier",
    "Continuation",
    "ExampleSource",
    "Fitted",
    "LanguageRun",
    "Recipe",
    "Run",
    "SentenceRun",
    "Task",
    "TrainingSetup",
    "Translation",
    "Translator",
    "Writer",
    "all_recipes",
    "all_tasks",
    "count_parameters",
    "entry_of",
    "find_recipe",
    "find_task",
    "fit",
    "home",
    "last_demo",
    "load",
    "load_as",
    "make_run",
    "make_search",
    "override",
    "read_report",
    "remember_demo",
    "report_of",
    "run_info",
    "steps_of",
    "task_of",
    "write_report",
]
