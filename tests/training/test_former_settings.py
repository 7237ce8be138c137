"""Settings that were saved before others existed are compared with the meaning of that time."""

from dataclasses import asdict, replace

from regard.training import AdamSettings, SGDSettings, TrainingSettings, differences
from regard.training.settings import fill_absent

SETTINGS = TrainingSettings(steps=3, optimizer=AdamSettings(clip_norm=1.0))


def changes(saved, settings):
    return differences({"training": fill_absent(saved, settings)}, {"training": asdict(settings)})


def older(settings):
    """As saved before two settings, and one of the optimizer, existed."""
    saved = asdict(settings)
    del saved["own_output_ratio"], saved["readout_bias"], saved["optimizer"]["weight_decay"]
    return saved


def test_absent_settings_have_their_former_values_or_their_defaults():
    filled = fill_absent(older(SETTINGS), SETTINGS)
    assert filled == asdict(replace(SETTINGS, readout_bias="model"))
    assert not changes(older(SETTINGS), SETTINGS)


def test_what_differs_from_the_former_meaning_is_a_change():
    assert changes(older(SETTINGS), replace(SETTINGS, own_output_ratio=0.5)) == [
        "training.own_output_ratio: 0.0 -> 0.5"
    ]
    decayed = replace(SETTINGS, optimizer=replace(SETTINGS.optimizer, weight_decay=0.1))
    assert changes(older(SETTINGS), decayed) == ["training.optimizer.weight_decay: 0.0 -> 0.1"]


def test_another_optimizer_is_a_change_in_both_directions():
    for before, after in ((AdamSettings(), SGDSettings()), (SGDSettings(), AdamSettings())):
        saved = asdict(replace(SETTINGS, optimizer=before))
        assert any(".optimizer." in change for change in changes(saved, replace(SETTINGS, optimizer=after)))
