"""Imports point down: a package imports what its line of the design names, and what that one may import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regard

SOURCE = Path(__file__).parents[1] / "src" / "regard"

# package -> the packages its line names; all may import contracts and _utils
NAMED = {
    "_utils": [],
    "contracts": [],
    "kernels": [],
    "attention": ["kernels"],
    "layers": ["attention"],
    "models": ["layers"],
    "fused": ["models"],
    "decoding": [],
    "data": [],
    "metrics": [],
    "checkpoint": [],
    "training": ["checkpoint"],
    "analysis": ["attention", "metrics"],
    "tasks": ["fused", "decoding", "data", "training", "analysis"],
    "recipes": ["tasks"],
    "display": [],
    "regression": ["attention"],
    "interop": ["tasks"],
    "testing": ["recipes"],
    "experiments": ["recipes", "regression", "display", "interop"],
    "serving": ["tasks"],
    "studio": ["experiments", "serving"],
}

# a third-party package that may be missing, or that takes long to import -> where it may be imported, late; regression
# is an estimator of sklearn's, and triton_support.py works without triton
OPTIONAL = {
    "entmax": "attention/alignments/sparse.py",
    "matplotlib": "display/figure.py",
    "sklearn": "regression",
    "babel": ("data/corpora/dates.py", "data/corpora/descriptions.py"),
    "accelerate": "training/engine.py",
    "filelock": "_utils/lock.py",
    "platformdirs": "_utils/user_dir.py",
    "tensorboard": "training/progress.py",
    "triton": "kernels/triton_support.py",
    "fastapi": "studio",
    "pydantic": "studio",
    "starlette": ("studio", "serving"),
    "uvicorn": "serving",
    "h11": "serving",
}
# what may be imported at the top of its place: sklearn's and the studio's are extras as a whole
AT_THE_TOP = {"sklearn", "triton", "fastapi", "pydantic", "starlette", "uvicorn", "h11"}


def reachable(package):
    below = {package, "contracts", "_utils"}
    for named in NAMED[package]:
        below |= reachable(named)
    return below


def imports(path):
    """Every absolute import of a file: (module, inside a function)."""
    tree = ast.parse(path.read_text())
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module, id(node) in inside


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    package = path.relative_to(SOURCE).parts[0]
    for module, late in imports(path):
        top, *rest = module.split(".")
        if top == "regard":
            target = rest[0] if rest else "regard"
            # the api is composed of packages that `import regard` must not import
            extra = (package == "cli" and target == "studio") or (package == "_api.py" and late)
            assert late == extra, f"{path.name} hides the import of {module} in a function, or does not and should"
            if package in NAMED:
                assert target in reachable(package), f"{package} may not import {target} ({path.name})"
            else:
                assert package in ("__init__.py", "__main__.py", "_api.py", "cli"), (
                    f"say in NAMED what {package} may import"
                )
            assert target != "cli" or package in ("cli", "__main__.py"), "nothing imports cli"
        elif top in OPTIONAL:
            assert path.relative_to(SOURCE).as_posix().startswith(OPTIONAL[top]), f"{path.name} imports {top}"
            assert late or top in AT_THE_TOP, f"{path.name} needs {top} to be imported"
        elif late:
            # torch's parts for many processes take as long to import as the rest of regard
            slow = module.startswith("torch.distributed")
            assert slow or top in sys.stdlib_module_names, f"{path.name} imports {top} late"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_other_packages_are_imported_through_their_door(path):
    """`from regard.layers import unroll`, not `from regard.layers.unroll import unroll`; a subpackage is a door too."""
    package = path.relative_to(SOURCE).parts[0]
    for module, _ in imports(path):
        top, *rest = module.split(".")
        if top == "regard" and rest and rest[0] != package and (package, module) != ("__init__.py", "regard._api"):
            assert SOURCE.joinpath(*rest).is_dir(), f"{path.name} imports {module} past the door of {rest[0]}"


def test_contracts_need_torch_only():
    for path in (SOURCE / "contracts").glob("*.py"):
        outside = {module.split(".")[0] for module, _ in imports(path)} - {"regard", "torch", "jaxtyping"}
        assert outside <= sys.stdlib_module_names


PICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_pickled(path):
    """A pickle runs code when it is read: tensors are safetensors, all else is text."""
    assert not {module.split(".")[0] for module, _ in imports(path)} & PICKLES
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            assert name not in ("torch.load", "torch.save", "np.load", "np.save", "numpy.load", "numpy.save"), name
        assert not (isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"))


BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
import torch
import regard
from regard.attention import ALIGNMENTS

x = torch.randn(2, 3, 8)
assert regard.attend(x, x, x).context.shape == x.shape
assert regard.MultiHeadAttention(8, 2)(x).context.shape == x.shape
for name, entry in ALIGNMENTS.items():
    try:
        entry.build(**{{"query_size": 8, "hidden_size": 2}} if name == "local_predictive" else {{}})
    except ImportError as error:
        print(name, error)
"""


def test_a_bare_host_can_import_and_the_error_names_what_is_missing():
    missing = ["entmax", "matplotlib", "sklearn", "scipy", "accelerate", "babel", "beartype", "fastapi", "pydantic"]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(missing=missing)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "sparsemax Sparsemax needs the entmax package. Install it with: pip install entmax",
        "entmax Entmax needs the entmax package. Install it with: pip install entmax",
    ]


IMPORTED = """
import sys, time, torch
before, start = set(sys.modules), time.process_time()
import regard
print(time.process_time() - start)
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before} - {"regard"}))
print(*sorted(name for name in sys.modules if name.startswith("regard.")))
print(*dir(regard))
"""


def test_import_regard_imports_torch_and_nothing_else():
    """Names are imported when they are first used; the limit of the design is 0.15 s of processor time."""
    result = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    seconds, others, own, names = result.stdout.splitlines()
    assert float(seconds) < 0.15
    assert not set(others.split()) - set(sys.stdlib_module_names)
    assert not own
    assert names.split() == sorted([*regard.__all__, "__version__"])


def test_every_public_name_and_subpackage_is_there():
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    assert regard.interop.MultiheadAttention is not None
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'look'"):
        regard.look  # noqa: B018 - the access is what is tested
