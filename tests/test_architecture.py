"""docs/architecture.md equals the output of its script."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_is_up_to_date():
    script = runpy.run_path(str(DOCS / "scripts" / "architecture.py"))
    assert (DOCS / "architecture.md").read_text(encoding="utf-8") == script["page"](), (
        "docs/architecture.md is out of date: run python docs/scripts/architecture.py"
    )
