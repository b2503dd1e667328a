"""Tables in Markdown, as the generated pages have them."""

from __future__ import annotations

from collections.abc import Iterable


def section(title: str, head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    """A heading and a table, or nothing where there is nothing to list."""
    rows = list(rows)
    return [f"## {title}", "", *table(head, rows), ""] if rows else []


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]
