"""The timeline: every system and mechanism of the tables, by year."""

import inspect
import json
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import Any

from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import MASKS
from regard.attention.positions import POSITIONS
from regard.attention.scores import SCORES
from regard.contracts import MechanismEntry, Title
from regard.recipes import all_recipes
from regard.studio.code_paths import path_of
from regard.studio.explanations import EXPLANATIONS
from regard.studio.history import FAMILIES, HISTORY
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import Milestone
from regard.tasks import Task, all_tasks

FamilyInfo = tuple[LocalizedText, Mapping[str, MechanismEntry]]
MECHANISMS: Mapping[str, FamilyInfo] = {
    "score": (LocalizedText(en="Scores", zh="评分函数"), SCORES),
    "alignment": (LocalizedText(en="Alignments", zh="对齐函数"), ALIGNMENTS),
    "mask": (LocalizedText(en="Masks", zh="掩码"), MASKS),
    "position": (LocalizedText(en="Positions", zh="位置编码"), POSITIONS),
}

TITLES = {"alibi": "ALiBi", "hard_gumbel": "Hard, Gumbel", "hard_sampled": "Hard, sampled"}
"""Titles that differ from the name in code."""

IN_CHINESE = {
    "Perplexity per word": "每词困惑度",
    "BLEU, tokenised lower-case": "BLEU（分词、小写）",
    "beam 5": "束宽 5",
    "Accuracy, %": "准确率（%）",
    "one stream, the state carried": "整篇作为一条流，状态连续传递",
    "16 streams side by side, each from the start": "16 条流并行，各自从头开始",
}
"""Words of results; names and signatures are the same in both languages."""


def milestones(models: Mapping[str, str]) -> list[Milestone]:
    """All milestones by year; `models` maps task/system to the name of a model in the studio."""
    figures = json.loads(files("regard.studio").joinpath("figures.json").read_text(encoding="utf-8"))
    items, tasks = [], all_tasks().values()
    # lanes of tasks come first, those of mechanisms follow
    for lane, task in enumerate(tasks):
        for name in task.models:
            key = f"{task.name}/{name}"
            items.append(system(task, lane, name, models.get(key), figures.get(key, [])))
    for lane, (family, (title, table)) in enumerate(MECHANISMS.items(), start=len(tasks)):
        items += [mechanism(family, lane, title, name, entry) for name, entry in table.items()]
    items += others(tasks)
    # the sort is stable: entries of one year keep the order of their table
    return sorted(items, key=lambda item: item.year)


def system(task: Task, lane: int, name: str, model: str | None, figures: list[dict[str, Any]]) -> Milestone:
    """A system with its results on our data."""
    entry = task.models[name]
    return Milestone(
        key=f"{task.name}/{name}",
        year=entry.year,
        # the name of a paper's system is the same in both languages
        title=LocalizedText(en=entry.title, zh=entry.title),
        family=task.name,
        family_title=localized(task.title),
        lane=lane,
        is_system=True,
        command=train_command(task, name),
        explanation=localized(entry.summary or Title(en=entry.title, zh=entry.title)),
        formula=entry.formula,
        paper=entry.paper,
        file=path_of(entry.build),
        figure=figure_of(figures),
        model=model,
        parts=None if entry.parts is None else localized(entry.parts),
        lesson=None,
    )


def mechanism(family: str, lane: int, title: LocalizedText, name: str, entry: MechanismEntry) -> Milestone:
    """A mechanism, such as a score."""
    own_title = TITLES.get(name) or name.replace("_", " ").capitalize()
    return Milestone(
        key=f"{family}/{name}",
        year=entry.year,
        # the page has the Chinese names of mechanisms, which Swap needs too
        title=LocalizedText(en=own_title, zh=own_title),
        family=family,
        family_title=title,
        lane=lane,
        is_system=False,
        command=None,
        explanation=EXPLANATIONS[family][name],
        formula=entry.formula,
        paper=entry.paper,
        file=path_of(entry.build),
        figure=None,
        model=None,
        parts=None,
        lesson=None,
    )


def others(tasks: Collection[Task]) -> list[Milestone]:
    """The milestones of no table; a story is in the lane of its task."""
    titles = {task.name: localized(task.title) for task in tasks} | FAMILIES
    lanes = {task.name: lane for lane, task in enumerate(tasks)}
    # after the lanes of tasks and mechanisms
    lanes |= {family: lane for lane, family in enumerate(FAMILIES, start=len(tasks) + len(MECHANISMS))}
    entries = [entry for task in tasks for entry in task.models.values()]
    return [
        entry.milestone(key, lane=lanes[entry.family], family_title=titles[entry.family])
        for key, entry in HISTORY.items()
        if not entry.is_among(entries)
    ]


def train_command(task: Task, system: str) -> str | None:
    """The command that trains a system, preferably on data that need no download."""
    commands = []
    for name, recipe in all_recipes().items():
        if recipe.task != task.name:
            continue
        parameters = inspect.signature(recipe.make).parameters.values()
        required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
        # a download counts as one more requirement
        needs_download = recipe.origin.startswith("http")
        options = " ".join([name, *(f"--{option.replace('_', '-')} FILE" for option in required)])
        commands.append((len(required) + needs_download, options))
    if not commands:
        return None
    # the first of those with the fewest requirements
    # the key leaves out the options, or ties would be in alphabetical order
    _, words = min(commands, key=lambda command: command[0])
    return f"regard train {words} --model {system.replace('_', '-')} --out runs/{system}"


def localized(title: Title) -> LocalizedText:
    """A text of the contracts as a message."""
    return LocalizedText(en=title.en, zh=title.zh)


def figure_of(figures: list[dict[str, Any]]) -> LocalizedText | None:
    """The measured results, with the conditions of each."""
    if not figures:
        return None
    return LocalizedText(en=" ".join(map(in_english, figures)), zh="".join(map(in_chinese, figures)))


def in_english(result: Mapping[str, Any]) -> str:
    """A result as an English sentence; an n-gram model has neither parameters nor steps."""
    data = f"{result['data']}, {result['split']} ({result['sentences']:,} sentences)"
    parts = [f"{result['metric']}: {result['score']:.1f} on {data}"]
    if result["parameters"]:
        parts += [f"{result['parameters'] / 1e6:.1f} M parameters", f"{result['steps']:,} steps"]
    parts.append(("seed " if len(result["seeds"]) == 1 else "mean of seeds ") + ", ".join(map(str, result["seeds"])))
    return "; ".join((", ".join(parts), *result["how"])) + "."


def in_chinese(result: Mapping[str, Any]) -> str:
    """A result as a Chinese sentence."""
    metric = IN_CHINESE.get(result["metric"], result["metric"])
    parts = [
        f"{metric}：{result['score']:.1f}",
        f"数据 {result['data']}",
        f"{result['split']} 集（{result['sentences']:,} 句）",
    ]
    if result["parameters"]:
        parts += [f"{result['parameters'] / 1e6:.1f} M 参数", f"{result['steps']:,} 步"]
    parts.append(("种子 " if len(result["seeds"]) == 1 else "多个种子的平均：") + "、".join(map(str, result["seeds"])))
    return "；".join(("，".join(parts), *(IN_CHINESE.get(how, how) for how in result["how"]))) + "。"
