"""The descriptor of the task."""

from regard.contracts.inspection import Title
from regard.tasks import Task

from .run import MODELS, WordRun
from .setup import example_command, open_classifier, read_examples, setup

TASK = Task(
    name="last_letter",
    title=Title(en="Last letter", zh="末字母"),
    verb="classify",
    input="text",
    models=MODELS,
    run_type=WordRun,
    setup=setup,
    open=open_classifier,
    read_examples=read_examples,
    example_command=example_command,
    unit="words",
)
