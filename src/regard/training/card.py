"""The model card: a README.md that says what a model is, what it was trained on and what it reached."""

from collections.abc import Mapping
from typing import Any


def model_card(*, title: str, summary: str, sections: Mapping[str, Mapping[str, Any] | str]) -> str:
    """Markdown from plain facts: a mapping becomes a table of its names and values, a text stays text."""
    parts = [f"# {title}", summary]
    for name, content in sections.items():
        body = content if isinstance(content, str) else _table(content)
        if body:
            parts.append(f"## {name}\n\n{body}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(facts: Mapping[str, Any]) -> str:
    rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in _flat(facts) if value is not None]
    return "\n".join(["| | |", "|---|---|", *rows]) if rows else ""


def _flat(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in facts.items():
        flat += _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
    return flat


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
