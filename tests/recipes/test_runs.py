"""Every recipe with every model is a complete run that can be built, written and read."""

import json
from dataclasses import replace

import pytest

from regard._utils import VERSION, override
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes import RECIPES, make_run
from regard.tasks import TASKS, count_parameters
from regard.tasks.build import build
from regard.tasks.load import from_config, to_config
from regard.training import differences

NEEDED = {
    "pairs": {"source": "a.en", "target": "a.zh"},
    "text": {"data": "a.txt"},
    "sentences": {"data": "a.train.all"},
}
EVERY = [(name, model) for name, recipe in RECIPES.items() for model in TASKS[recipe.task].models]


@pytest.mark.parametrize(("recipe", "model"), EVERY)
def test_every_run_is_complete_and_survives_json(recipe, model):
    run = make_run(recipe, model, **NEEDED.get(recipe, {}))
    assert (run.recipe, run.model_name) == (recipe, model)
    config = json.loads(json.dumps(to_config(run, VERSION)))
    assert config["regard"] == VERSION
    assert from_config(config, "config.json") == run


@pytest.mark.parametrize("model", TRANSLATION_MODELS)
def test_synthetic_recipes_have_similar_sizes(model):
    run = make_run("dates", model)
    sized = replace(run, model=replace(run.model, source_vocab_size=46, target_vocab_size=28))
    assert 200_000 < count_parameters(build(sized)) < 420_000


def test_misspelt_arguments_of_recipes_raise_errors_with_the_nearest_name():
    with pytest.raises(ValueError, match="there is no model 'bahdanaw'; the nearest is 'bahdanau'"):
        make_run("dates", "bahdanaw")
    with pytest.raises(ValueError, match="there is no recipe 'date'; the nearest is 'dates'"):
        make_run("date")
    with pytest.raises(ValueError, match=r"the recipe multi30k does not accept source. It accepts pair, form, folder"):
        make_run("multi30k", source="x")
    for recipe, name in (("pairs", "source"), ("text", "data"), ("sentences", "data")):
        with pytest.raises(ValueError, match=rf"the recipe {recipe} needs {name}\. Give it with --{name}"):
            make_run(recipe)


@pytest.mark.parametrize(("recipe", "model"), [("text", "bahdanau"), ("sentences", "gpt"), ("dates", "cnn")])
def test_a_model_of_another_task_is_refused_by_the_recipe(recipe, model):
    with pytest.raises(ValueError, match=f"there is no model '{model}'"):
        make_run(recipe, model, **NEEDED.get(recipe, {}))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"trainin": {}}, "the nearest is 'training'"),
        ({"task": "translate"}, "task is 'translate', and there is no task 'translate'; the nearest is 'translation'"),
        ({"corpus": "syntetic"}, "there is no corpus 'syntetic'; the nearest is 'synthetic'"),
        ({"corpus": None}, "corpus is None, expected a name or a reference such as file.py:name."),
        ({"model_name": "luon"}, "model_name is 'luon'; the nearest is 'luong'"),
        ({"model": {"hidden": 3}}, "has no 'hidden'; the nearest is 'hidden_size'"),
        ({"data": 3}, "data is"),
        ({"task": "language_modeling"}, "model_name is 'luong'"),
    ],
)
def test_reading_a_config_is_strict(change, sentence):
    config = {**to_config(make_run("dates", "luong"), VERSION), **change}
    with pytest.raises(ValueError, match=r"config\.json") as error:
        from_config(config, "config.json")
    assert sentence in str(error.value)


def test_missing_settings_and_foreign_configs_are_named():
    config = to_config(make_run("dates", "luong"), VERSION)
    del config["batch"]
    with pytest.raises(ValueError, match="has no batch, and needs one"):
        from_config(config, "config.json")
    with pytest.raises(ValueError, match="was not written by regard"):
        from_config({"architectures": ["MarianMTModel"]}, "config.json")


def test_differences_list_training_settings_and_not_the_device():
    old = make_run("dates", "luong")
    new = override(old, "model.layers=3", "training.compute.device=cpu", "training.every.log=7")
    configs = [to_config(run, VERSION) for run in (old, new)]
    assert differences(*configs) == ["model.num_layers: 1 -> 3"]
    assert differences(configs[0], configs[0]) == []
    # a recipe is a label
    assert differences(configs[0], {**configs[0], "recipe": "another name"}) == []
