"""Random words, a few steps."""

from regard.training import AdamSettings, EverySettings, ScheduleSettings, SelectionSettings, TrainingSettings

from .run import LastLetterConfig, WordCorpus, WordRun
from .task import TASK


def words(*, count: int = 64, steps: int | None = None) -> WordRun:
    """Words that end in a vowel or do not."""
    return WordRun(
        recipe=TASK.name,
        model_name="last_letter",
        model=LastLetterConfig(),
        data=WordCorpus(count=count),
        training=TrainingSettings(
            steps=steps or 20,
            label_smoothing=0.0,
            optimizer=AdamSettings(learning_rate=0.05),
            schedule=ScheduleSettings(name="constant", warmup_steps=0),
            every=EverySettings(log=5, validate=10, save=10),
            selection=SelectionSettings(metric="loss"),
        ),
    )
