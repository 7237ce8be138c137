"""Tasks: one folder per task with equal file names, and the code that tasks share."""

from regard._utils import override
from regard.tasks.attention_sites import (
    align_to_tokens,
    batch_element,
    count_numbers,
    describe_site,
    drop_empty_keys,
    find_sites,
    first_key,
    first_keys,
    join_weights,
    name_of,
    token_axis,
)
from regard.tasks.base import (
    BatchSettings,
    ExampleSource,
    Task,
    TrainingSetup,
    check_texts,
    configure,
    count_parameters,
    describe_run,
    equal_size,
    run_info,
    steps_of,
)
from regard.tasks.build import entry_of
from regard.tasks.fit import TrainedModel, fit, model_card, several_processes
from regard.tasks.load import data_warning, from_config, load, load_as, read_run, repair_folder, to_config
from regard.tasks.reports import read_report, report_of, write_report
from regard.tasks.table import TASKS, all_tasks, find_task, task_of

__all__ = [
    "TASKS",
    "BatchSettings",
    "ExampleSource",
    "Task",
    "TrainedModel",
    "TrainingSetup",
    "align_to_tokens",
    "all_tasks",
    "batch_element",
    "check_texts",
    "configure",
    "count_numbers",
    "count_parameters",
    "data_warning",
    "describe_run",
    "describe_site",
    "drop_empty_keys",
    "entry_of",
    "equal_size",
    "find_sites",
    "find_task",
    "first_key",
    "first_keys",
    "fit",
    "from_config",
    "join_weights",
    "load",
    "load_as",
    "model_card",
    "name_of",
    "override",
    "read_report",
    "read_run",
    "repair_folder",
    "report_of",
    "run_info",
    "several_processes",
    "steps_of",
    "task_of",
    "to_config",
    "token_axis",
    "write_report",
]
