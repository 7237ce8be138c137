"""The history as one line: every system and mechanism that the tables hold, by year."""

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, get_type_hints

from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import MASKS
from regard.attention.positions import POSITIONS
from regard.attention.scores import SCORES
from regard.contracts import MechanismEntry
from regard.recipes import all_recipes
from regard.studio.explanations import EXPLANATIONS
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import Milestone
from regard.tasks import Task, all_tasks

FamilyInfo = tuple[LocalizedText, Mapping[str, MechanismEntry]]
MECHANISMS: Mapping[str, FamilyInfo] = {
    "score": (LocalizedText(en="Scores", zh="评分函数"), SCORES),
    "alignment": (LocalizedText(en="Alignments", zh="对齐函数"), ALIGNMENTS),
    "mask": (LocalizedText(en="Masks", zh="掩码"), MASKS),
    "position": (LocalizedText(en="Positions", zh="位置方案"), POSITIONS),
}

TITLES = {"alibi": "ALiBi", "hard_gumbel": "Hard, Gumbel", "hard_sampled": "Hard, sampled"}
"""Names that are not spelled as they are written in code."""

IN_CHINESE = {
    "Perplexity per word": "每词困惑度",
    "Accuracy, %": "准确率（%）",
    "one stream, the state carried": "整篇作为一条流，状态相承",
    "16 streams side by side, each from the start": "16 条流并行，各从头开始",
}
"""Words of figures; names and signatures are the same in both languages."""


def milestones(models: Mapping[str, str]) -> list[Milestone]:
    """All in history order; `models` has the name of a model in the studio by task and system."""
    figures = json.loads(files("regard.studio").joinpath("figures.json").read_text(encoding="utf-8"))
    items, tasks = [], all_tasks().values()
    for lane, task in enumerate(tasks):
        for name in task.models:
            key = f"{task.name}/{name}"
            items.append(system(task, lane, name, models.get(key), figures.get(key, [])))
    for lane, (family, (title, table)) in enumerate(MECHANISMS.items(), start=len(tasks)):
        items += [mechanism(family, lane, title, name, entry) for name, entry in table.items()]
    return sorted(items, key=lambda item: item.year)


def system(task: Task, lane: int, name: str, model: str | None, figures: list[dict[str, Any]]) -> Milestone:
    """A system, with its figures on our data."""
    entry = task.models[name]
    return Milestone(
        key=f"{task.name}/{name}",
        year=entry.year,
        title=entry.title,
        family=task.name,
        family_title=LocalizedText(en=task.title.en, zh=task.title.zh),
        lane=lane,
        is_system=True,
        command=train_command(task, name),
        explanation=explanation_of(task.name, name, entry.title),
        formula=entry.formula,
        paper=entry.paper,
        file=file_of(entry.build),
        figure=figure_of(figures),
        model=model,
    )


def mechanism(family: str, lane: int, title: LocalizedText, name: str, entry: MechanismEntry) -> Milestone:
    """A part that a model is built with."""
    own_title = TITLES.get(name) or name.replace("_", " ").capitalize()
    return Milestone(
        key=f"{family}/{name}",
        year=entry.year,
        title=own_title,
        family=family,
        family_title=title,
        lane=lane,
        is_system=False,
        command=None,
        explanation=explanation_of(family, name, own_title),
        formula=entry.formula,
        paper=entry.paper,
        file=file_of(entry.build),
        figure=None,
        model=None,
    )


def train_command(task: Task, system: str) -> str | None:
    """The command that trains a system: on data that need no download where there are such."""
    commands = []
    for name, recipe in all_recipes().items():
        if recipe.task != task.name:
            continue
        parameters = inspect.signature(recipe.make).parameters.values()
        needed = [one.name for one in parameters if one.default is one.empty]
        needs_download = recipe.origin.startswith("http")
        options = " ".join([name, *(f"--{one.replace('_', '-')} FILE" for one in needed)])
        commands.append((len(needed) + needs_download, options))
    if not commands:
        return None
    # the first of those that need least
    _, words = min(commands, key=lambda command: command[0])
    return f"regard train {words} --model {system.replace('_', '-')} --out runs/{system}"


def explanation_of(family: str, name: str, title: str) -> LocalizedText:
    """Its sentence; systems of other packages have none, and their title stands there."""
    return EXPLANATIONS.get(family, {}).get(name) or LocalizedText(en=title, zh=title)


def file_of(build: Callable[..., Any]) -> str:
    """Where the thing that is built is written; a table's own shorthand is followed to what it returns."""
    shorthand = inspect.isfunction(build) and hasattr(sys.modules[build.__module__], "__path__")
    made = get_type_hints(build)["return"] if shorthand else build
    return made.__module__.removeprefix("regard.").replace(".", "/") + ".py"


def figure_of(figures: list[dict[str, Any]]) -> LocalizedText | None:
    """What was measured, with all that it holds for."""
    if not figures:
        return None
    return LocalizedText(en=" ".join(map(in_english, figures)), zh="".join(map(in_chinese, figures)))


def in_english(one: Mapping[str, Any]) -> str:
    """One figure as an English sentence; a model that counts has neither parameters nor steps."""
    told = [f"{one['metric']}: {one['score']:.1f} on {one['data']}, {one['split']} ({one['sentences']:,} sentences)"]
    if one["parameters"]:
        told += [f"{one['parameters'] / 1e6:.1f} M parameters", f"{one['steps']:,} steps"]
    told.append(("seed " if len(one["seeds"]) == 1 else "mean of seeds ") + ", ".join(map(str, one["seeds"])))
    return "; ".join((", ".join(told), *one["how"])) + "."


def in_chinese(one: Mapping[str, Any]) -> str:
    """One figure as a Chinese sentence."""
    metric = IN_CHINESE.get(one["metric"], one["metric"])
    told = [f"{metric}：{one['score']:.1f}", f"数据 {one['data']}", f"{one['split']}（{one['sentences']:,} 句）"]
    if one["parameters"]:
        told += [f"{one['parameters'] / 1e6:.1f} M 参数", f"{one['steps']:,} 步"]
    told.append(("种子 " if len(one["seeds"]) == 1 else "多个种子的平均：") + "、".join(map(str, one["seeds"])))
    return "；".join(("，".join(told), *(IN_CHINESE.get(how, how) for how in one["how"]))) + "。"
