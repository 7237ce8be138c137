"""Losses, weights and outputs of every system, bit for bit, to compare two versions of regard.

    python -m benchmarks.snapshot --out FILE                  train every small case, write what came out
    python -m benchmarks.snapshot --out FILE --compare OLD    the same, and compare with a snapshot written before

Each case of snapshot_cases.py is trained for 20 steps through the command line on one CPU thread, and answers a few
inputs. There are two modes. "default" is what users get. "readable" registers a forward hook that does nothing for all
modules of torch: code that would skip the call of a submodule, as fused decoding and the fast recurrent loops do, must
then call it, so the models' own code runs. Floats are written as hexadecimal, which is exact. Bit equality can be
expected on the same CPU model with the same torch only.
"""

import argparse
import hashlib
import importlib.metadata
import io
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch.nn.modules.module import register_module_forward_hook

import regard
from benchmarks.harness import machine
from benchmarks.snapshot_cases import (
    ANSWERS,
    COMMANDS,
    EVALUATION,
    FILES,
    METRICS,
    OPTIONS,
    Case,
    cases,
    log_probs,
    train_arguments,
    write_data,
)
from regard.cli import main as command_line

STEPS, VALIDATE = 20, 10
TINY_RATE = 1e-300
"""A learning rate that rounds to 0 in float32: a training of one step then writes its initial weights."""

HEXADECIMAL = re.compile(r"-?0x[01]\.[0-9a-f]+p[+-]\d+|-?inf|nan")


@contextmanager
def readable() -> Iterator[None]:
    """Within, every module of every model has a forward hook, so nothing may skip its call."""
    handle = register_module_forward_hook(lambda module, inputs, outputs: None)
    try:
        yield
    finally:
        handle.remove()


MODES = {"default": nullcontext, "readable": readable}
DEEP = re.compile(r"\n {4,}|\n {3}(?=[\]}])")
"""Ends of lines in a file with an indentation of 1 that are left out, so that each part of a record is one line."""


def run(*arguments: Any, lines: tuple[str, ...] = ()) -> str:
    """The standard output of `regard` with these arguments and this standard input."""
    output, errors = io.StringIO(), io.StringIO()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO("\n".join([*lines, ""]).encode()))
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            command_line([str(argument) for argument in arguments])
    except SystemExit as stop:
        if stop.code:
            raise RuntimeError(f"regard {' '.join(map(str, arguments))} failed: {errors.getvalue()}") from None
    finally:
        sys.stdin = before
    return output.getvalue()


def exact(value: Any) -> Any:
    """The value with every float as hexadecimal digits."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Mapping):
        return {name: exact(inner) for name, inner in value.items()}
    return [exact(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def weights_of(path: Path) -> dict[str, Any]:
    """SHA-256 of the tensors in a file, with their names and without, and their norm."""
    digests, named, squares = [], hashlib.sha256(), []
    with safe_open(path, framework="pt") as file:
        for name in sorted(file.keys()):
            tensor = file.get_tensor(name)
            content = f"{tuple(tensor.shape)} {tensor.dtype}".encode() + tensor.numpy().tobytes()
            digests.append(hashlib.sha256(content).hexdigest())
            named.update(f"{name} {digests[-1]}\n".encode())
            squares.append(tensor.double().square().sum().item())
    unnamed = hashlib.sha256("\n".join(sorted(digests)).encode())
    # fsum, since the order of the sum must not depend on the names
    norm = exact(math.sqrt(math.fsum(squares)))
    return {"sha256": named.hexdigest(), "sha256_without_names": unnamed.hexdigest(), "norm": norm}


def outputs_of(case: Case, folder: Path) -> dict[str, Any]:
    """Outputs of the trained system through the command line, and exact log-probabilities."""
    cpu = (folder, OPTIONS["device"], "cpu")
    option, inputs = OPTIONS.__getitem__, tuple(case.inputs)
    if case.family == "translation":
        command = (COMMANDS["translate"], *cpu)
        links = (option("alignments"),) if case.attends else ()
        answers = {
            "greedy": run(*command, option("beam"), 1, *links, lines=inputs).splitlines(),
            "beam": run(*command, option("beam"), 3, option("num_best"), 2, lines=inputs).splitlines(),
            "sample": run(*command, option("sample"), option("seed"), 1, lines=inputs).splitlines(),
        }
    elif case.family == "language":
        prompts = [word for prompt in inputs for word in (option("prompt"), prompt)]
        command = (COMMANDS["generate"], *cpu, option("json"), option("max_tokens"), 24, *prompts)
        answers = {
            "greedy": json_lines(run(*command, option("temperature"), 0)),
            "sample": json_lines(run(*command, option("seed"), 1)),
        }
    else:
        answers = {"classes": json_lines(run(COMMANDS["classify"], *cpu, option("json"), *inputs))}
    return {**answers, "log_probs": exact(log_probs(regard.load(folder, device="cpu"), case))}


def json_lines(text: str) -> list[dict[str, Any]]:
    """One output per line, with the figures named in ANSWERS."""
    answers = map(json.loads, text.splitlines())
    return [{name: exact(answer[key]) for name, key in ANSWERS.items() if key in answer} for answer in answers]


def evaluation_of(case: Case, folder: Path) -> dict[str, Any]:
    """Figures of `regard evaluate`."""
    run(COMMANDS["evaluate"], folder, OPTIONS["split"], "validation", OPTIONS["device"], "cpu")
    report = json.loads(next(folder.glob(FILES["evaluation"])).read_text())
    figures = {}
    for name, path in EVALUATION[case.family].items():
        value = report
        for key in path.split("."):
            value = part_of(value, key)
        figures[name] = exact(value)
    return figures


def part_of(value: Any, key: str) -> Any:
    """An entry of an object by its key, of a list by its index or by the `name` of the entry; None if there is none."""
    if isinstance(value, Mapping):
        return value.get(key)
    if not isinstance(value, list):
        return None
    if key.lstrip("-").isdecimal():
        return value[int(key)] if value else None
    return next((entry for entry in value if entry.get("name") == key), None)


def record(case: Case, folder: Path, files: Mapping[str, Mapping[str, Path]]) -> dict[str, Any]:
    """Train a case and collect its losses, weights and outputs."""
    first, last = folder / "first", folder / "last"
    run(*train_arguments(case, first, files, steps=1, learning_rate=TINY_RATE))
    run(*train_arguments(case, last, files, steps=STEPS, validate=VALIDATE, save=VALIDATE))
    metrics = [json.loads(line) for line in (last / FILES["metrics"]).read_text().splitlines()]
    return {
        "initial_weights": weights_of(first / FILES["weights"]),
        **{name: [exact(line[key]) for line in metrics if key in line] for name, key in METRICS.items()},
        "final_weights": weights_of(last / FILES["weights"]),
        "outputs": outputs_of(case, last),
        "evaluation": evaluation_of(case, last),
    }


def take(names: list[str]) -> dict[str, Any]:
    """A snapshot of the named cases in every mode."""
    torch.set_num_threads(1)
    source = Path(regard.__file__).parent
    commit, changes = (
        subprocess.run(["git", *words], cwd=source, capture_output=True, text=True, check=False).stdout.strip()
        for words in (["log", "-1", "--format=%H", "--", "."], ["status", "--porcelain", "--", "."])
    )
    versions = {name: importlib.metadata.version(name) for name in ("babel", "tokenizers")}
    snapshot: dict[str, Any] = {
        "machine": {**machine(), **versions, "commit": commit, "uncommitted_changes": bool(changes)},
        "steps": STEPS,
    }
    chosen = {name: case for name, case in cases().items() if not names or any(part in name for part in names)}
    for mode, context in MODES.items():
        snapshot[mode] = {}
        for name, case in chosen.items():
            with tempfile.TemporaryDirectory() as place, context():
                folder = Path(place)
                snapshot[mode][name] = record(case, folder, write_data(folder))
            print(f"{mode}: {name}", file=sys.stderr, flush=True)
    snapshot["modes_differ"] = [name for name in chosen if snapshot["default"][name] != snapshot["readable"][name]]
    return snapshot


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path, value
    for name, part in inner or ():
        yield from flat(part, f"{path}.{name}" if path else str(name))


def distance(old: Any, new: Any) -> float | None:
    """The relative difference of two floats, None for other values."""
    if not all(isinstance(value, str) and HEXADECIMAL.fullmatch(value) for value in (old, new)):
        return None
    before, after = float.fromhex(old), float.fromhex(new)
    # 0.0 and -0.0 are equal numbers of different bits
    return abs(after - before) / (max(abs(before), abs(after)) or 1.0)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The parts of a record that differ, and by how much; tensors under other names are no difference."""
    before, after = dict(flat(old)), dict(flat(new))
    sentences = []
    for part in dict.fromkeys(path.split(".")[0] for path in {**before, **after}):
        paths = [path for path in {**before, **after} if path.split(".")[0] == part and not path.endswith(".sha256")]
        unequal = [path for path in paths if before.get(path) != after.get(path)]
        if not unequal:
            continue
        sizes = {path: distance(before.get(path), after.get(path)) for path in unequal}
        floats = {path: size for path, size in sizes.items() if size is not None}
        sentence = f"{part}: {len(unequal)} of {len(paths)} values"
        if floats:
            largest = max(floats, key=floats.__getitem__)
            sentence += f", at most {floats[largest]:.1e} relative ({largest}), first {next(iter(floats))}"
        others = [path for path in unequal if path not in floats]
        sentences.append(sentence + (f"; {len(others)} that are not floats ({others[0]})" if others else ""))
    return sentences


def compare(old: Mapping[str, Any], new: Mapping[str, Any], *, complete: bool = True) -> bool:
    """Print, for each mode and case, whether it is bit-equal, and return whether all are.

    A snapshot that is not `complete` may lack cases of the old one.
    """
    for key in ("cpu", "threads", "torch", "babel", "tokenizers"):
        if old["machine"].get(key) != new["machine"].get(key):
            print(f"Note: {key} was {old['machine'].get(key)} and is {new['machine'].get(key)}.")
    equal = True
    for mode in MODES:
        for name in [name for name in old[mode] if complete and name not in new[mode]]:
            print(f"{mode}: {name}: not in the new snapshot")
            equal = False
        for name, answer in new[mode].items():
            if name not in old[mode]:
                print(f"{mode}: {name}: not in the old snapshot")
                equal = False
                continue
            unequal = differences(old[mode][name], answer)
            equal = equal and not unequal
            twins = [other for other in MODES if other != mode and not differences(old[other][name], answer)]
            verdict = f"bit-equal to the old {twins[0]} mode only" if twins else "differs"
            renamed = any(old[mode][name][part] != answer[part] for part in ("initial_weights", "final_weights"))
            note = " (tensors under other names)" if renamed else ""
            print(f"{mode}: {name}: {verdict if unequal else 'bit-equal' + note}")
            for sentence in unequal:
                print(f"    {sentence}")
    return equal


def main() -> int:
    """Take a snapshot and compare it, or compare two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--compare", type=Path, help="a snapshot written before")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of cases")
    parser.add_argument("--no-training", action="store_true", help="compare the file --out as it is")
    options = parser.parse_args()
    if not options.no_training:
        text = json.dumps(take(options.only), indent=1, ensure_ascii=False)
        options.out.write_text(DEEP.sub("", text) + "\n", encoding="utf-8")
    if options.compare is None:
        return 0
    old, new = (json.loads(path.read_text()) for path in (options.compare, options.out))
    return 0 if compare(old, new, complete=not options.only) else 1


if __name__ == "__main__":
    sys.exit(main())
