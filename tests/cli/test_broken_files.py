"""For a broken or missing file a command prints one error that names it, and ends with code 2."""

import json
import shutil

import pytest

FOREIGN = {
    "config.json": b'{"model_type": "marian"}',
    "model.safetensors": b"\x80\x04pickle" * 40,
    "tokenizer.json": b'{"vocab": {"a": 1}}',
    "tokenizer.target.json": b"<html>not found</html>",
}
HARMS = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "foreign": lambda path: path.write_bytes(FOREIGN[path.name]),
    "not text": lambda path: path.write_bytes(b"\xff\xfe\x00" * 9),
}


@pytest.fixture
def refused(command, capsys):
    """Run a command that must fail with code 2; its error."""

    def run(*arguments, stdin=b""):
        capsys.readouterr()
        assert command(*arguments, stdin=stdin) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "Traceback" not in captured.err
        return " ".join(captured.err.split())

    return run


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", FOREIGN)
def test_a_broken_file_of_a_translator_is_named(refused, trained, tmp_path, name, harm):
    folder = shutil.copytree(trained, tmp_path / "copy")
    HARMS[harm](folder / name)
    assert name in refused("translate", folder, stdin=b"a b\n")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_broken_file_of_a_generator_or_classifier_is_named(refused, writers, classifier, tmp_path, name, harm):
    for use, whole in (("generate", writers["lstm"]), ("classify", classifier)):
        folder = shutil.copytree(whole, tmp_path / use)
        HARMS[harm](folder / name)
        assert name in refused(use, folder, stdin=b"the cat\n")


def test_files_of_different_runs(refused, writers, classifier, tmp_path):
    for use, whole, other in (("generate", writers["gpt"], classifier), ("classify", classifier, writers["lstm"])):
        folder = shutil.copytree(whole, tmp_path / use)
        shutil.copy(other / "tokenizer.json", folder)
        assert "tokenizer.json has" in refused(use, folder, stdin=b"the cat\n")
    folder = shutil.copytree(classifier, tmp_path / "classes")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "classes": ["CAT", "DOG"]}))
    assert "names 2 classes, and its model has 3" in refused("classify", folder, "a")


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("classes",), ["CAT", "CAT", "DOG"], "names 2 classes, and its model has 3"),
        (("batch", "max_length"), 0, "batch.max_length is 0, expected 1 token or more"),
        (("model_name",), ["cnn"], "model_name is ['cnn']; the nearest is"),
        (("recipe",), {}, "recipe is an object, expected text"),
    ],
)
def test_an_edited_config_raises_an_error_with_the_setting(refused, classifier, tmp_path, path, value, sentence):
    folder = shutil.copytree(classifier, tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    inner = config
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    (folder / "config.json").write_text(json.dumps(config))
    assert sentence in refused("classify", folder, "a")


def test_a_path_that_is_not_a_folder_is_refused(refused, tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "nothing", tmp_path / "file"):
        files = ["--source", tmp_path / "file", "--target", tmp_path / "file"]
        commands = ["translate", path], ["generate", path], ["classify", path], ["evaluate", path]
        for arguments in (*commands, ["score", path, *files]):
            assert f"{path} is not a folder" in refused(*arguments)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "there is no file"), (b"", "is empty"), (b"a\n\xff\n", "line 2 of"), (b"a\nb\nc\n", "Line 3 of")],
    ids=["missing", "empty", "not UTF-8", "one line more"],
)
def test_invalid_files_to_score_are_named(refused, trained, tmp_path, content, sentence):
    (tmp_path / "good").write_text("a\nb\n")
    if content is not None:
        (tmp_path / "bad").write_bytes(content)
    for source, target in (("good", "bad"), ("bad", "good")):
        files = ["--source", tmp_path / source, "--target", tmp_path / target]
        assert sentence in refused("score", trained, *files)
        assert sentence in refused("evaluate", trained, *files)


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "copy", "--steps", "many"],
        ["train", "copy", "--no-such-option"],
        ["translate"],
        ["generate"],
        ["classify"],
        ["generate", "x", "--max-tokens", "many"],
        ["evaluate"],
        ["score"],
        ["nothing"],
        ["list", "models", "recipes"],
    ],
    ids=" ".join,
)
def test_an_invalid_option_is_a_usage_error(refused, arguments):
    assert refused(*arguments)
