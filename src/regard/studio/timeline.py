"""The history as one line: every system and mechanism that the tables hold, by year."""

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Literal, get_type_hints

from regard.attention import ALIGNMENTS, MASKS, POSITIONS, SCORES
from regard.contracts import Entry
from regard.models import LANGUAGE_MODELS, MODELS, SENTENCE_MODELS, ModelEntry
from regard.studio.ideas import IDEAS
from regard.studio.schema import Kind, Milestone, Said

Family = Literal["system", "language", "sentences"]
Mechanism = Literal["score", "alignment", "mask", "position"]

SYSTEMS: dict[Family, Mapping[str, ModelEntry]] = {
    "system": MODELS,
    "language": LANGUAGE_MODELS,
    "sentences": SENTENCE_MODELS,
}
FAMILY_OF: dict[Kind, Family] = {"translation": "system", "language": "language", "sentences": "sentences"}
"""The same name may stand in several families: LSTMN translates, writes and sorts."""
MECHANISMS: dict[Mechanism, Mapping[str, Entry]] = {
    "score": SCORES,
    "alignment": ALIGNMENTS,
    "mask": MASKS,
    "position": POSITIONS,
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
    """All in history order; `models` says by key which system can be watched under which name on the shelf."""
    figures = json.loads(files("regard.studio").joinpath("figures.json").read_text(encoding="utf-8"))
    found = [
        system(kind, name, models.get(f"{kind}/{name}"), figures.get(f"{kind}/{name}", []))
        for kind, systems in SYSTEMS.items()
        for name in systems
    ]
    for family, table in MECHANISMS.items():
        found += [mechanism(family, name, entry) for name, entry in table.items()]
    return sorted(found, key=lambda one: one.year)


def system(family: Family, name: str, model: str | None, figures: list[dict[str, Any]]) -> Milestone:
    """A system, with what it reached on our data."""
    entry = SYSTEMS[family][name]
    return Milestone(
        key=f"{family}/{name}",
        year=entry.year,
        title=entry.title,
        family=family,
        idea=IDEAS[family][name],
        formula=entry.formula,
        paper=entry.paper,
        file=file_of(entry.build),
        figure=figure_of(figures),
        model=model,
    )


def mechanism(family: Mechanism, name: str, entry: Entry) -> Milestone:
    """A score, an alignment, a mask or a position scheme."""
    return Milestone(
        key=f"{family}/{name}",
        year=entry.year,
        title=TITLES.get(name, name.replace("_", " ").capitalize()),
        family=family,
        idea=IDEAS[family][name],
        formula=entry.formula,
        paper=entry.paper,
        file=file_of(entry.build),
        figure=None,
        model=None,
    )


def file_of(build: Callable[..., Any]) -> str:
    """Where the thing that is built is written; a table's own shorthand is followed to what it returns."""
    shorthand = inspect.isfunction(build) and hasattr(sys.modules[build.__module__], "__path__")
    made = get_type_hints(build)["return"] if shorthand else build
    return made.__module__.removeprefix("regard.").replace(".", "/") + ".py"


def figure_of(figures: list[dict[str, Any]]) -> Said | None:
    """What was measured, with all that it holds for."""
    if not figures:
        return None
    return Said(en=" ".join(map(in_english, figures)), zh="".join(map(in_chinese, figures)))


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
