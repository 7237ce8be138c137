"""Overrides are typed, and an unknown key suggests the nearest."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from regard._utils import override
from regard._utils.config_io import choose_class, from_plain, from_text, to_plain
from regard.recipes import make_run
from regard.training import AdamSettings, SGDSettings


@dataclass(frozen=True)
class Round:
    size: int = 3


@dataclass(frozen=True)
class Square:
    side: float = 2.0


@dataclass(frozen=True)
class Everything:
    number: int = 1
    share: float = 0.5
    word: str = "a"
    either: bool = False
    maybe: int | None = None
    choice: Literal["x", "y"] = "x"
    many: tuple[int, ...] = ()
    where: Path = Path("here")
    shape: Round | Square = field(default_factory=Round)


@pytest.mark.parametrize(
    ("assignment", "name", "value"),
    [
        ("number=6", "number", 6),
        ("number=2e3", "number", 2000),
        ("number=1_000", "number", 1000),
        ("share=1e-3", "share", 1e-3),
        ("share=1", "share", 1.0),
        ("word=b=c", "word", "b=c"),
        ("word=", "word", ""),
        ("either=yes", "either", True),
        ("either=0", "either", False),
        ("maybe=3", "maybe", 3),
        ("maybe=none", "maybe", None),
        ("choice=y", "choice", "y"),
        ("many=1,2, 3", "many", (1, 2, 3)),
        ("where=/tmp", "where", Path("/tmp")),
        ("shape=square", "shape", Square()),
        ("shape.size=5", "shape", Round(5)),
    ],
)
def test_values_take_the_type_of_their_setting(assignment, name, value):
    changed = override(Everything(), assignment)
    assert getattr(changed, name) == value
    assert type(getattr(changed, name)) is type(value)


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("number=six", "number is a whole number, and 'six' is not."),
        ("number=1.5", "number is a whole number"),
        ("share=nan", "share is a number"),
        ("either=perhaps", "either is true or false"),
        ("choice=z", "choice is 'x' or 'y', and 'z' is not."),
        ("maybe=many", "maybe is a whole number or none"),
        ("shape=star", "shape is Round or Square"),
        ("numbr=6", "there is no setting 'numbr'; the nearest is 'number'."),
        ("shape.sise=6", "there is no setting 'shape.sise'; the nearest is 'shape.size'."),
        ("number.more=6", "number is 1 and has no settings of its own"),
        ("number", "'number' sets nothing. Write key=value"),
        ("=3", "sets nothing"),
    ],
)
def test_invalid_values_raise_errors_with_the_setting(assignment, sentence):
    with pytest.raises(ValueError, match=r"setting|is |sets") as error:
        override(Everything(), assignment)
    assert sentence in str(error.value)


def test_dataclasses_survive_json():
    changed = override(Everything(), "shape=square", "many=4,5", "maybe=7", "where=/x")
    plain = to_plain(changed)
    assert plain["shape"] == {"kind": "Square", "side": 2.0}
    assert from_plain(Everything, plain, "config") == changed


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"numbr": 1}, "config has no 'numbr'; the nearest is 'number'."),
        ({"number": "1"}, 'config.number is "1", expected a whole number.'),
        ({"number": True}, "config.number is true, expected a whole number."),
        ({"shape": {"kind": "Star"}}, "config.shape has kind 'Star'. Known: Round, Square."),
        ({"number": {}}, "config.number is an object, expected a whole number."),
        ({"shape": {"kind": "Round", "sze": 1}}, "config.shape has no 'sze'; the nearest is 'size'."),
    ],
)
def test_reading_json_is_strict(change, sentence):
    with pytest.raises(ValueError, match="config") as error:
        from_plain(Everything, {**to_plain(Everything()), **change}, "config")
    assert sentence in str(error.value)


def test_a_missing_required_setting_is_named():
    @dataclass(frozen=True)
    class Needs:
        size: int

    with pytest.raises(ValueError, match="config has no size, and needs one"):
        from_plain(Needs, {}, "config")


def test_text_of_a_union_with_str_prefers_the_narrower_type():
    assert from_text(str | None, "none", "x") is None
    assert from_text(str | None, "some", "x") == "some"


def test_the_prefix_num_may_be_omitted():
    run = make_run("dates", "luong")
    assert override(run, "model.layers=6").model.num_layers == 6
    assert override(run, "model.num_layers=6") == override(run, "model.layers=6")
    assert override(run, "training.optimizer.learning_rate=1e-3").training.optimizer.learning_rate == 1e-3


def test_a_settings_class_is_chosen_by_its_name():
    run = make_run("dates", "luong")
    assert override(run, "training.optimizer=adam").training.optimizer == AdamSettings()
    chosen = override(run, "training.optimizer=sgd", "training.optimizer.momentum=0.9")
    assert chosen.training.optimizer == SGDSettings(momentum=0.9)
    plain = to_plain(chosen)["training"]["optimizer"]
    assert plain["kind"] == "SGDSettings" and from_plain(AdamSettings | SGDSettings, plain, "x").momentum == 0.9
    # a config from before there was a choice
    old = {name: value for name, value in to_plain(AdamSettings(eps=1e-6)).items() if name != "kind"}
    assert from_plain(AdamSettings | SGDSettings, old, "x") == AdamSettings(eps=1e-6)


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("model.source_vocab_size=9", "set tokenizer.vocab_size"),
        ("recipe=copy", "the recipe is the command's first word"),
        ("model_name=luong", "--model"),
        ("training.optimizer=adagrad", "training.optimizer is AdamSettings or SGDSettings, and 'adagrad' is not"),
        ("training.schedule=cosine", "Set one of them: training.schedule.name"),
        ("model=3", "model is a group of settings"),
        ("trainng.steps=3", "the nearest is 'training'"),
        ("training.steps=0", "steps is 0, expected more than 0"),
        ("tokenizer.kind=bpee", "the nearest is 'bpe'"),
    ],
)
def test_fixed_settings_are_refused_with_a_reason(assignment, sentence):
    with pytest.raises(ValueError, match=r"\w") as error:
        override(make_run("dates", "luong"), assignment)
    assert sentence in str(error.value)


@pytest.mark.parametrize("tag", [[], ["Cosine"], {}, 1, None])
def test_a_tag_that_is_no_text_is_refused(tag):
    with pytest.raises(ValueError, match="where has kind"):
        choose_class(AdamSettings | SGDSettings, {"kind": tag}, "where")
