"""The files of the package, as the page shows them: `attention/scores/dot.py`."""

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, get_type_hints


def path_of(build: Callable[..., Any]) -> str:
    """The file of the class that is built; for a function of a table, of the class that it returns."""
    # only packages have __path__: a function of a table is in an __init__.py
    is_factory = inspect.isfunction(build) and hasattr(sys.modules[build.__module__], "__path__")
    # the return type of the function is the class
    built = get_type_hints(build)["return"] if is_factory else build
    return str(built.__module__).removeprefix("regard.").replace(".", "/") + ".py"


def find_class(reference: str) -> Callable[..., Any] | None:
    """The class or function of `package:name`; None if the package or the name does not exist."""
    package, _, name = reference.partition(":")
    try:
        module = import_module(package)
    except ModuleNotFoundError as error:
        # the package itself is missing, or one of its own imports, which is an error
        if error.name is None or not f"{package}.".startswith(f"{error.name}."):
            raise
        return None
    target: Callable[..., Any] | None = getattr(module, name, None)
    return target
