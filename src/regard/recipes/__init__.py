"""Recipes: functions that return a complete run, one file per data set."""

from regard.recipes.table import RECIPES, Recipe, all_recipes, find_recipe, make_run

__all__ = [
    "RECIPES",
    "Recipe",
    "all_recipes",
    "find_recipe",
    "make_run",
]
