"""Functions that return a complete run, and what is done with one: train it, load it, translate, evaluate."""

from regard.recipes.evaluate import evaluate, steps_of
from regard.recipes.fit import Fitted, count_parameters, fit
from regard.recipes.folder import load
from regard.recipes.home import DEMO_SYSTEMS, home, last_demo, remember_demo
from regard.recipes.override import override
from regard.recipes.run import Run
from regard.recipes.table import RECIPES, Recipe, make_run
from regard.recipes.tasks import TASKS, Task, task_of
from regard.recipes.translation import Translation
from regard.recipes.translator import Translator, make_search

__all__ = [
    "DEMO_SYSTEMS",
    "RECIPES",
    "TASKS",
    "Fitted",
    "Recipe",
    "Run",
    "Task",
    "Translation",
    "Translator",
    "count_parameters",
    "evaluate",
    "fit",
    "home",
    "last_demo",
    "load",
    "make_run",
    "make_search",
    "override",
    "remember_demo",
    "steps_of",
    "task_of",
]
