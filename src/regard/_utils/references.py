"""References to Python objects: `file.py:name`, `module:name`, or an entry point of an installed package.

A reference is text that a config can store. Importing one runs the file, as any import does.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha1
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from regard._utils.names import nearest

SUFFIX = ".py"


def is_reference(text: str) -> bool:
    """True if the text has the form of a reference."""
    # the last colon, as a Windows path has one after the drive
    location, _, name = text.rpartition(":")
    return bool(location) and name.isidentifier()


def import_reference(reference: str) -> Any:
    """Import the object that a reference names."""
    location, _, name = reference.rpartition(":")
    if not is_reference(reference):
        raise ValueError(f"{reference!r} names nothing that can be imported. Write file.py:name or module:name.")
    try:
        module = import_file(Path(location)) if location.endswith(SUFFIX) else importlib.import_module(location)
    except Exception as error:
        # user code may raise anything
        raise ValueError(f"{reference} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise ValueError(f"{reference} cannot be imported: {location} has no {name}. Check the name.")
    return getattr(module, name)


def import_file(path: Path) -> ModuleType:
    """Import a file as a module, or return the module if the file is already imported or is the running program."""
    # resolved, so that two spellings of a path give one module
    path = path.resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}. Restore it, or give its new path.")
    # a list: `__file__` of a lazy module may import others, which changes sys.modules
    for module in list(sys.modules.values()):
        origin = getattr(module, "__file__", None)
        if isinstance(origin, str) and Path(origin).resolve() == path:
            return module
    if (path.parent / "__init__.py").is_file():
        return _import_from_package(path)
    # the path is part of the name, so that two files of one name are two modules
    name = f"regard_file_{sha1(str(path).encode(), usedforsecurity=False).hexdigest()[:8]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # registered before it runs: dataclasses read their own module from sys.modules
    sys.modules[name] = module
    try:
        with _on_path(path.parent):
            spec.loader.exec_module(module)
    # BaseException: an interrupted import must not leave a half-initialised module either
    except BaseException:
        del sys.modules[name]
        raise
    return module


def reference_of(value: Any) -> str:
    """The reference of a class or function, for `import_reference`."""
    name, module = value.__qualname__, sys.modules.get(value.__module__)
    if "." in name or module is None:
        raise ValueError(
            f"{name} is defined inside a function or a class, so it cannot be imported again. Define it at the top of "
            f"its file."
        )
    return f"{module_reference(module)}:{name}"


def module_reference(module: ModuleType) -> str:
    """The name of a module if it can be imported by name, else its file."""
    top = module.__name__.split(".")[0]
    # a module that was imported from a file has a name that `import` does not resolve
    if top != "__main__" and PathFinder.find_spec(top) is not None:
        return module.__name__
    if getattr(module, "__file__", None) is None:
        raise ValueError("an object defined in an interactive session cannot be imported again. Define it in a file.")
    return str(Path(str(module.__file__)).resolve())


def find_entry_points(group: str) -> dict[str, EntryPoint]:
    """Entry points of installed packages by name; none is imported."""
    return {entry.name: entry for entry in entry_points(group=group)}


def load_entry_point(entry: EntryPoint) -> Any:
    """Import the object of an entry point; the error names the package."""
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else "an installed package"
        raise ValueError(
            f"{package} offers {entry.name} ({entry.value}), which cannot be imported: {type(error).__name__}: {error}"
        ) from error


def find_object(name: str, table: Mapping[str, Any], group: str, what: str, *, hint: str = "") -> Any:
    """The object of a name of the table, of a reference, or of an entry point of the group."""
    # first, because entry points are found by reading the metadata of all packages
    if name in table:
        return table[name]
    # a reference has a colon, which no name contains
    if is_reference(name):
        return import_reference(name)
    entries = find_entry_points(group)
    if name in entries:
        return load_entry_point(entries[name])
    names = [*table, *entries]
    raise ValueError(
        f"there is no {what} {name!r}; the nearest is {nearest(name, names)!r}. Known: {', '.join(names)}{hint}."
    )


def _import_from_package(path: Path) -> ModuleType:
    """Import a file of a package under its full name, so that its relative imports work."""
    names, root = [] if path.name == "__init__.py" else [path.stem], path.parent
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    with _on_path(root):
        module = importlib.import_module(".".join(names))
    if Path(str(module.__file__)).resolve() != path:
        raise ImportError(f"the package {names[0]} is already imported from {module.__file__}. Rename one of the two.")
    return module


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    # first, so that neighbours of the file precede installed modules of the same name
    sys.path.insert(0, str(folder))
    # finders cache folder listings, in which a file written a moment ago is missing
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
