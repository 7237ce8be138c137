"""The command itself: version, help, and errors."""

import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard._utils.names import find_name
from regard.cli import main
from regard.cli.main import COMMANDS

BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("matplotlib", "sklearn", "entmax", "scipy"):
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
from regard.cli import main
main(["list", "experiments"])
"""


HELP = """
import sys
from regard.cli import main
try:
    main(["--help"])
finally:
    assert "torch" not in sys.modules
"""


def run(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"regard {regard.__version__}\n"


def test_help_names_every_command(capsys):
    assert run("--help") == 0
    out = capsys.readouterr().out
    assert "list" in out
    assert "experiment" in out


def test_an_unknown_command_is_a_usage_error(capsys):
    assert run("experimnt") == 2
    assert "experiment" in capsys.readouterr().err


@pytest.mark.parametrize("place", [0, 1, 3])
def test_debug_shows_where_an_error_was_raised(place):
    arguments = ["list", "nothing", "--json"]
    arguments.insert(place, "--debug")
    with pytest.raises(ValueError, match="there is no family 'nothing'"):
        main(arguments)


def test_a_disk_error_is_printed_without_a_traceback(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run("experiment", "scaling", "--out", str(tmp_path / "file" / "below")) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert "Traceback" not in error


def test_closed_streams_are_treated_as_empty():
    line = f"{Path(sys.executable).with_name('regard')} list masks"
    process = subprocess.run(["sh", "-c", f"{line} <&- >&-"], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


def test_names_are_found_with_hyphens_and_in_any_case():
    for inputs in ("embedding-scale", "embedding_scale", " Embedding-Scale "):
        assert find_name(inputs, ["pooling", "embedding_scale"], "experiment") == "embedding_scale"


def test_list_needs_no_optional_package():
    process = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "causal-mask" in process.stdout


def test_help_imports_no_torch():
    process = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "experiment" in process.stdout


def test_every_command_of_the_table_has_its_help(capsys):
    for command, (_, text) in COMMANDS.items():
        assert run(command, "--help") == 0
        assert " ".join(text.split()) in " ".join(capsys.readouterr().out.split())
