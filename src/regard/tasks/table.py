"""The table of tasks; tasks of other packages come by entry point or by reference."""

import sys
from typing import Any

from regard._utils import find_entry_points, import_reference, is_reference, load_entry_point, module_reference, nearest
from regard.contracts import Capabilities, Title
from regard.models import LANGUAGE_MODELS, TEXT_CLASSIFICATION_MODELS, TRANSLATION_MODELS
from regard.tasks.base import Task
from regard.tasks.language_modeling import setup as language_modeling
from regard.tasks.language_modeling.run import LanguageModelingRun
from regard.tasks.text_classification import setup as text_classification
from regard.tasks.text_classification.run import TextClassificationRun, describe_classifier
from regard.tasks.translation import setup as translation
from regard.tasks.translation.evaluate import BEAM
from regard.tasks.translation.run import TranslationRun

GROUP = "regard.tasks"

TASKS = {
    "translation": Task(
        name="translation",
        title=Title(en="Translation", zh="翻译"),
        verb="translate",
        input="text",
        models=TRANSLATION_MODELS,
        run_type=TranslationRun,
        setup=translation.setup_translation,
        open=translation.open_translator,
        read_examples=translation.read_pairs,
        example_command=translation.example_command,
        evaluate_options={"beam": BEAM},
        capabilities=Capabilities(takes_output=True),
    ),
    "language_modeling": Task(
        name="language_modeling",
        title=Title(en="Language modeling", zh="语言建模"),
        verb="generate",
        input="text",
        models=LANGUAGE_MODELS,
        run_type=LanguageModelingRun,
        setup=language_modeling.setup_language_modeling,
        open=language_modeling.open_text_generator,
        read_examples=language_modeling.read_texts,
        example_command=language_modeling.example_command,
        capabilities=Capabilities(streams=True, multiline=True),
    ),
    "text_classification": Task(
        name="text_classification",
        title=Title(en="Text classification", zh="文本分类"),
        verb="classify",
        input="text",
        models=TEXT_CLASSIFICATION_MODELS,
        run_type=TextClassificationRun,
        setup=text_classification.setup_text_classification,
        open=text_classification.open_classifier,
        read_examples=text_classification.read_labelled,
        example_command=text_classification.example_command,
        describe=describe_classifier,
        unit="sentences",
    ),
}


def all_tasks() -> dict[str, Task]:
    """The tasks of installed packages and of the table, by name."""
    # the table is last, so that a package cannot replace one of its tasks
    return {**{name: load_task(name) for name in find_entry_points(GROUP)}, **TASKS}


def find_task(name: str) -> Task:
    """The task of a name or a reference such as `file.py:TASK`."""
    return TASKS[name] if name in TASKS else load_task(name)


def load_task(name: str) -> Task:
    """A task of another package or of the user's own file."""
    entries = find_entry_points(GROUP)
    if is_reference(name):
        task = import_reference(name)
    elif name in entries:
        task = load_entry_point(entries[name])
    else:
        names = [*TASKS, *entries]
        raise ValueError(
            f"there is no task {name!r}; the nearest is {nearest(name, names)!r}. Known: {', '.join(names)}."
        )
    if not isinstance(task, Task):
        raise ValueError(f"{name} is a {type(task).__name__}, expected a regard.tasks.Task.")
    return task


def task_of(run: Any) -> Task:
    """The task of a run."""
    return find_task(task_name(run))


def task_name(run: Any) -> str:
    """The task as config.json records it: a name of the table or of an entry point, or a reference."""
    kind = type(run)
    for name, task in TASKS.items():
        # identity: a subclass of a run may belong to another task
        if task.run_type is kind:
            return name
    # importing an entry point is slow, so only those of the run's own package are tried
    top = kind.__module__.split(".")[0]
    for name, entry in find_entry_points(GROUP).items():
        if entry.module.split(".")[0] == top and load_task(name).run_type is kind:
            return name
    # the task is defined beside its run, in the same file or package
    # list(): an import in another thread changes sys.modules during the loop
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").split(".")[0] == top:
            for name, value in list(vars(module).items()):
                if isinstance(value, Task) and value.run_type is kind:
                    return f"{module_reference(module)}:{name}"
    raise ValueError(
        f"no task has the run type {kind.__name__}. Define Task(run_type={kind.__name__}, ..) in the file or package "
        f"of {kind.__name__}, or offer it as an entry point of {GROUP}."
    )
