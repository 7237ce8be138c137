"""Corrupted copies of a run's folder, and what loading, resuming and evaluating them gives.

An outcome is one of OUTCOMES. Only the first two may occur: a damaged folder is refused with a sentence, or the damage
changes nothing.
"""

import contextlib
import io
import json
import os
import random
import resource
import secrets
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.console import Console
from safetensors.torch import load_file, save_file

from regard import load
from regard._utils import override
from regard.checkpoint import load_tensors
from regard.cli import main as command
from regard.tasks import fit

OUTCOMES = ("refused", "same", "other", "traceback", "hang")
ALLOWED = ("refused", "same")
SECONDS = 60
"""Processor time after which an action counts as hanging; other processes on the machine do not count."""
WAIT = 900.0
"""Seconds after which a process that uses no processor time counts as hanging."""
INPUTS = ["a b c", "d d a b", "c"]

HOSTILE: tuple[Any, ...] = (10**7, -1, 0, None, "x", [], {}, [[]], True, 1e308, "a" * 10_000, 10**30)
"""Values in the place of any other value of a JSON file."""
HOSTILE_METADATA = (
    '{"aliases": {"a": "nope"}}',
    '{"aliases": [1, 2]}',
    '{"facts": {"step": "x"}}',
    '{"facts": {"average": []}}',
    '{"facts": 3}',
    "{",
    "[" * 5000,
)
PATTERNS = ("(a|a|aa)+$", "(?:(?:a*)*)*b", "[", "\\p{Nope}")
Harm = Callable[[Path, random.Random], None]


def remove(path: Path, chance: random.Random) -> None:
    """The file is gone."""
    path.unlink()


def empty(path: Path, chance: random.Random) -> None:
    """The file has no content."""
    path.write_bytes(b"")


def truncate(path: Path, chance: random.Random) -> None:
    """The file ends at a random place."""
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def zeros(path: Path, chance: random.Random) -> None:
    """A random part of the file is zero, as after a power cut."""
    content = bytearray(path.read_bytes())
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.choice((1, 512, len(content))))
    content[start:end] = bytes(end - start)
    path.write_bytes(content)


def noise(path: Path, chance: random.Random) -> None:
    """The file holds random bytes."""
    path.write_bytes(chance.randbytes(chance.choice((1, 100, 5000))))


def foreign(path: Path, chance: random.Random) -> None:
    """The file is one of another kind."""
    path.write_bytes(
        chance.choice((b"<html>not found</html>", b"\x80\x04pickle" * 40, b"[1, 2]", b'{"a": 1}\n', b"PK"))
    )


def loop(path: Path, chance: random.Random) -> None:
    """The file is a link to itself."""
    path.unlink()
    path.symlink_to(path.name)


def folder(path: Path, chance: random.Random) -> None:
    """The file is a folder."""
    path.unlink()
    path.mkdir()


def header(path: Path, chance: random.Random) -> None:
    """The first eight bytes, the length of a safetensors header, name a large number."""
    length = chance.choice((2**62, 99_000_000, 2**32, 0))
    path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])


def flip(path: Path, chance: random.Random) -> None:
    """One bit is flipped."""
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def hostile(path: Path, chance: random.Random) -> None:
    """One value of a JSON file is another one, or the metadata of a tensor file are."""
    if path.suffix == ".safetensors":
        # without a checksum, as a file of another program
        save_file(load_file(path), path, metadata={"regard": chance.choice(HOSTILE_METADATA)})
        return
    if path.suffix != ".json":
        foreign(path, chance)
        return
    document = json.loads(path.read_text())
    if path.name.startswith("tokenizer"):
        document["pre_tokenizer"] = {
            "type": "Split",
            "pattern": {"Regex": chance.choice(PATTERNS)},
            "behavior": "Isolated",
            "invert": False,
        }
    elif path.name == "config.json" and chance.random() < 0.5:
        # an edited model, without the checksum that would refuse it
        document.pop("sha256")
        sizes = [name for name, value in document["model"].items() if type(value) is int]
        document["model"][chance.choice(sizes)] = chance.choice(HOSTILE)
    else:
        *parents, key = chance.choice(list(paths_of(document)))
        inner = document
        for name in parents:
            inner = inner[name]
        inner[key] = chance.choice(HOSTILE)
    path.write_text(json.dumps(document))


def paths_of(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    paths = [(*path, key) for key in keys]
    return paths + [inner for key in keys for inner in paths_of(document[key], (*path, key))]


HARMS: dict[str, Harm] = {
    "gone": remove,
    "empty": empty,
    "truncated": truncate,
    "zeros": zeros,
    "random bytes": noise,
    "foreign file": foreign,
    "link to itself": loop,
    "folder": folder,
    "header": header,
    "bit flip": flip,
    "hostile content": hostile,
}


def answer(run_folder: Path) -> str:
    """Translations with their scores."""
    predictor: Any = load(run_folder, device="cpu")
    return repr([(str(one), one.log_prob) for one in predictor.translate(INPUTS, beam=2)])


def resume(run_folder: Path, *, steps: int) -> str:
    """The final state of a training that is resumed for some more steps."""
    run = override(load(run_folder, device="cpu").run, f"training.steps={steps}")
    trained = fit(run, run_folder, resume=True, console=Console(quiet=True))
    checkpoint = run_folder / "training" / f"step-{trained.result.steps:08d}"
    paths = [run_folder / "model.safetensors", *sorted(checkpoint.glob("*.safetensors"))]
    digest = sha256()
    for path in paths:
        for name, tensor in load_tensors(path).items():
            digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest() + repr(trained.result.metrics)


def evaluate(run_folder: Path) -> str:
    """The metrics of `regard evaluate` on the test."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            command(["evaluate", str(run_folder), "--split", "test", "--device", "cpu"])
        except SystemExit as exit_:
            if exit_.code:
                raise ValueError(errors.getvalue()) from None
    report = json.loads((run_folder / "evaluation-test.json").read_text())
    return repr(report["metrics"]) + repr(report["warnings"])


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The outcome of an action on a corrupted folder; `detail` is its result, its sentence or its traceback."""

    outcome: str
    detail: str


def attempt(action: Callable[[Path], str], run_folder: Path, expected: str | None) -> Attempt:
    """Run an action in this process."""
    try:
        result = action(run_folder)
    # what the command line prints as one sentence
    except (ValueError, OSError, ImportError) as error:
        # an error that is raised without a sentence of the package is a defect as well
        is_sentence = len(str(error)) > 20
        return Attempt(outcome="refused" if is_sentence else "traceback", detail=str(error) or repr(error))
    except BaseException:
        return Attempt(outcome="traceback", detail=traceback.format_exc())
    return Attempt(outcome="same" if result == expected else "other", detail=result)


def attempt_in_child(action: Callable[[Path], str], run_folder: Path, expected: str | None) -> Attempt:
    """Run an action in a process of its own, which is killed when it hangs."""
    result = run_folder.with_name(f"{run_folder.name}-{secrets.token_hex(4)}.json")
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        devnull = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(devnull, stream)
        try:
            one = attempt(action, run_folder, expected)
            result.write_text(json.dumps([one.outcome, one.detail]))
        finally:
            os._exit(0)
    deadline = time.monotonic() + WAIT
    process = status = 0
    while not process:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
        process, status = os.waitpid(child, os.WNOHANG)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU):
        return Attempt(outcome="hang", detail=f"not done after {SECONDS} s of processor time")
    if not result.exists():
        return Attempt(outcome="traceback", detail="the process ended without a result")
    outcome, detail = json.loads(result.read_text())
    result.unlink()
    return Attempt(outcome=outcome, detail=detail)


def files_of(run_folder: Path) -> list[Path]:
    """Every file of a run, relative to its folder."""
    return sorted(path.relative_to(run_folder) for path in run_folder.rglob("*") if path.is_file())


def corrupt(
    source: Path,
    scratch: Path,
    *,
    count: int,
    seed: int,
    actions: dict[str, Callable[[Path], str]],
    run: Callable[..., Attempt] = attempt_in_child,
) -> tuple[dict[str, Counter[str]], list[dict[str, str]]]:
    """Counts of outcomes by action, and the cases that may not occur."""
    expected = {}
    for name, action in actions.items():
        whole = run(action, shutil.copytree(source, scratch / f"whole-{name}"), None)
        assert whole.outcome == "other", f"{name} fails on the undamaged folder: {whole.detail}"
        expected[name] = whole.detail
    chance = random.Random(seed)
    counts: dict[str, Counter[str]] = {name: Counter() for name in actions}
    defects: list[dict[str, str]] = []
    files, harms = files_of(source), list(HARMS)
    for number in range(count):
        # every file and every harm in turn, each with the others
        file, harm = files[number % len(files)], harms[(number + number // len(files)) % len(harms)]
        case_seed = chance.getrandbits(32)
        for name, action in actions.items():
            copy = shutil.copytree(source, scratch / "copy", symlinks=True)
            HARMS[harm](copy / file, random.Random(case_seed))
            result = run(action, copy, expected[name])
            counts[name][result.outcome] += 1
            if result.outcome not in ALLOWED:
                defects.append({"action": name, "file": str(file), "harm": harm, "seed": str(case_seed)} | vars(result))
            shutil.rmtree(copy)
    return counts, defects
