"""The package works without any private name of torch, and one file uses them all."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

import regard
from regard.attention.masks import causal
from regard.attention.scores import Additive
from regard.contracts import torch_private
from regard.training import SelectionSettings, train
from tests.fused.systems import SYSTEMS, make_transformer
from tests.training.toy import Letters, Toy, loss_of, settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "regard"
PRIVATE = SOURCE / "contracts" / "torch_private.py"
SAVED = {"_parameters", "_buffers", "_modules"}
"""Attributes of torch's modules by which every pickled module is loaded, so that no version renames them."""


def lookups():
    """Variable -> the name in torch that it is looked up by."""
    for node in ast.parse(PRIVATE.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.func.id == "lookup":
            yield node.targets[0].id, node.value.args[0].value


NAMES = dict(lookups())


def attention_results():
    """Contexts and gradients of fused and formed attention, under torch.func too."""
    generator = torch.Generator().manual_seed(0)
    # as many triples as the fused path of the additive score needs
    queries, keys, values = (torch.randn(1, 64, 64, generator=generator).requires_grad_() for _ in range(3))
    torch.manual_seed(0)
    results = []
    additive = Additive(query_size=64, key_size=64, hidden_size=1024)
    for options in ({"score": additive}, {}):
        context = regard.attend(queries, keys, values, mask=causal(), **options).context
        results += [context, *torch.autograd.grad(context.square().sum(), (queries, keys, values))]
    results.append(torch.func.vmap(lambda rows: regard.attend(rows, rows, rows, score=additive).context)(keys))
    return results


def decoding_results():
    """Log-probabilities of the best targets, by fused code where it may run."""
    hypotheses = SYSTEMS["transformer greedy"].answer(make_transformer())
    return [torch.tensor([log_prob for _, log_prob in hypotheses])]


def training_results(folder):
    """Losses after a few steps, with a running average of the weights."""
    data, model = Letters(), Toy()
    chosen = settings(steps=3, selection=SelectionSettings(ema=0.9))
    train(model, data, chosen, folder, validate=lambda model: loss_of(model, data), console=Console(quiet=True))
    return [torch.tensor(loss_of(model, data)["loss"])]


def results(folder):
    """Everything above, as one list of tensors."""
    return [tensor.detach() for tensor in (*attention_results(), *decoding_results(), *training_results(folder))]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return results(tmp_path_factory.mktemp("expected"))


@pytest.mark.parametrize("variable", NAMES)
def test_without_a_name_the_results_are_the_same(variable, expected, tmp_path, monkeypatch):
    assert getattr(torch_private, variable) is not None, "the installed torch has the name, or the lookup is wrong"
    monkeypatch.setattr(torch_private, variable, None)
    torch.testing.assert_close(results(tmp_path), expected)


@pytest.fixture
def without_names(monkeypatch):
    for variable in NAMES:
        monkeypatch.setattr(torch_private, variable, None)


REMOVED = """
import tempfile
from importlib import import_module
from pathlib import Path

import torch

def owner_of(name):
    path, _, attribute = name.rpartition(".")
    # torch._C._functorch is no module that can be imported
    return torch._C._functorch if path == "torch._C._functorch" else import_module(path), attribute

# operators cannot be removed; torch itself needs the other names, so they come back once the package has been imported
places = [owner_of(name) for name in {names!r} if not name.startswith("torch.ops.")]
objects = [getattr(owner, attribute) for owner, attribute in places]
for owner, attribute in places:
    delattr(owner, attribute)
import regard.contracts
for (owner, attribute), value in zip(places, objects):
    setattr(owner, attribute, value)

from regard.contracts import torch_private
from tests.contracts import test_torch_private as cases

for variable, name in cases.NAMES.items():
    assert (getattr(torch_private, variable) is None) != name.startswith("torch.ops."), name
for tensor in cases.results(Path(tempfile.mkdtemp())):
    print(tensor.double().sum().item())
"""


def test_a_torch_without_the_names_can_import_attend_decode_and_train(expected):
    command = [sys.executable, "-c", REMOVED.format(names=list(NAMES.values()))]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    sums = [tensor.double().sum().item() for tensor in expected]
    assert list(map(float, result.stdout.split())) == pytest.approx(sums, rel=1e-4, abs=1e-4)


def test_without_names_whatever_could_change_a_result_is_still_noticed(without_names):
    """What cannot be determined is taken to be so, and readable code runs."""
    tensor, values = torch.randn(3, 2), {}

    def record(name):
        def function(row):
            values[name] = (torch_private.is_wrapped(row), torch_private.transforms_active())
            return row.sum()

        return function

    torch.func.vmap(record("vmap"))(tensor)
    torch.func.grad(record("grad"))(tensor)
    torch.func.jvp(record("jvp"), (tensor,), (tensor,))
    assert values == dict.fromkeys(("vmap", "grad", "jvp"), (True, True))
    assert not torch_private.is_wrapped(tensor)
    assert torch_private.global_hooks_registered()


def test_without_names_modes_are_found_by_public_functions(without_names):
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), named=None):
            return function(*arguments, **(named or {}))

    assert not torch_private.function_mode_active()
    with Mode():
        assert torch_private.function_mode_active()
    assert not torch_private.autocast_active()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch_private.autocast_active()
    assert not torch_private.forward_mode_active()
    with torch.autograd.forward_ad.dual_level():
        assert torch_private.forward_mode_active()


def test_without_names_gradients_are_those_of_torch(without_names):
    inputs, grad = torch.randn(4, 5, dtype=torch.float64, requires_grad=True), torch.randn(4, 5, dtype=torch.float64)
    for function, backward in (
        (torch.sigmoid, torch_private.sigmoid_backward),
        (torch.tanh, torch_private.tanh_backward),
        (lambda scores: scores.softmax(-1), torch_private.softmax_backward),
    ):
        outputs = function(inputs)
        (expected_grad,) = torch.autograd.grad(outputs, inputs, grad)
        torch.testing.assert_close(backward(grad, outputs.detach()), expected_grad)


def test_an_attribute_for_each_kind_of_hook():
    module = nn.Linear(2, 2)
    assert not any(vars(module)[name] for name in torch_private.HOOKS)
    for register in (
        module.register_forward_hook,
        module.register_forward_pre_hook,
        module.register_full_backward_hook,
        module.register_full_backward_pre_hook,
    ):
        handle = register(lambda *_: None)
        assert sum(bool(vars(module)[name]) for name in torch_private.HOOKS) == 1
        handle.remove()
    old_style = nn.Linear(2, 2)
    old_style.register_backward_hook(lambda *_: None)
    assert any(vars(old_style)[name] for name in torch_private.HOOKS)


def test_the_version_of_a_tensor_differs_after_an_edit():
    tensor = torch.zeros(3)
    before = torch_private.version_of(tensor)
    assert before == torch_private.version_of(tensor)
    tensor += 1
    assert before != torch_private.version_of(tensor)
    with torch.inference_mode():
        uncounted = torch.zeros(3)
    assert torch_private.version_of(uncounted) != torch_private.version_of(uncounted)


def test_compiler_options_that_torch_lacks_are_left_out(monkeypatch):
    # torch's compiler is not removed, only what the package looks up
    monkeypatch.setattr(torch_private, "lookup", lambda name: None)
    with torch_private.recompile_limit(3), torch_private.distinct_lengths():
        assert torch_private.compile_errors() == (Exception,)


def test_a_name_that_torch_lacks_is_none():
    for name in ("torch.no_such_name", "torch.no_such.module.name", "torch.ops.aten.no_such_operator"):
        assert torch_private.lookup(name) is None


@pytest.mark.unchecked
def test_without_names_attention_compiles(without_names):
    torch.compiler.reset()
    sides = torch.randn(2, 9, 8)
    score = Additive(query_size=8, key_size=8, hidden_size=4)
    compiled = torch.compile(
        lambda sides: regard.attend(sides, sides, sides, score=score).context, fullgraph=True, backend="eager"
    )
    torch.testing.assert_close(compiled(sides), regard.attend(sides, sides, sides, score=score).context)


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def private_names(tree):
    """Names that a file defines, and private names that it uses: imported, or attributes of anything but self."""
    own, uses = set(), []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = (getattr(node, "module", None) or "").split(".")
            paths = [[*module, *alias.name.split(".")] for alias in node.names]
            uses += [(path[-1], path) for path in paths if any(map(is_private, path)) or "experimental" in path]
        elif isinstance(node, ast.Attribute):
            root = node.value.id if isinstance(node.value, ast.Name) else None
            if isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            if (is_private(node.attr) and root not in ("self", "cls")) or (root, node.attr) == ("torch", "ops"):
                uses.append((node.attr, [ast.unparse(node)]))
    return own, uses


def test_no_other_file_uses_a_private_name_of_another_package():
    names = {path: private_names(ast.parse(path.read_text())) for path in SOURCE.rglob("*.py")}
    # os._exit is documented
    known = set().union(*(own for own, _ in names.values())) | SAVED | {"_exit"}
    uses = {
        path: [".".join(where) for name, where in used if name not in known and "regard" not in where]
        for path, (_, used) in names.items()
    }
    assert uses.pop(PRIVATE), "this test finds no private name where there are some"
    found = {str(path.relative_to(SOURCE)): where for path, where in uses.items() if where}
    assert not found, "look them up in contracts/torch_private.py, with a fallback"
