"""The sections of the runbook, one for each alert rule, as blocks that a template can show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

FILE = Path(__file__).parents[1] / "runbook.md"  # docs/how-to/respond-to-alerts.md
LINK, BOLD, CODE = re.compile(r"\[([^\]]+)\]\([^)]*\)"), re.compile(r"\*\*([^*]+)\*\*"), re.compile(r"`([^`]+)`")


@cache
def render_section(rule: str) -> SafeString:
    """Returns the section of an alert rule as HTML; empty if there is none."""
    _before, heading, rest = _read().partition(f"\n## {rule}\n")
    section = rest.partition("\n## ")[0].strip()
    blocks = [_render_block(each.splitlines()) for each in section.split("\n\n")] if heading else []
    return format_html_join("\n", "{}", ((block,) for block in blocks))


@cache
def list_sections() -> list[str]:
    """Returns the names of the sections: the alert rules in the order of the page."""
    return re.findall(r"^## (\w+)$", _read(), re.MULTILINE)


@cache
def _read() -> str:
    return FILE.read_text() if FILE.exists() else ""


def _render_block(lines: list[str]) -> SafeString:
    if lines[0].startswith("|"):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("|---")]
        cells = (format_html_join("", "<td>{}</td>", ((_render_words(cell),) for cell in row)) for row in rows[1:])
        return format_html('<table class="table"><tbody>{}</tbody></table>', _join("<tr>{}</tr>", cells))
    if lines[0].startswith("- "):
        items = " ".join(lines).removeprefix("- ").split(" - ")
        return format_html("<ul>{}</ul>", _join("<li>{}</li>", map(_render_words, items)))
    return format_html("<p>{}</p>", _render_words(" ".join(lines)))


def _join(pattern: str, parts: Iterable[SafeString]) -> SafeString:
    return format_html_join("", pattern, ((part,) for part in parts))


def _render_words(text: str) -> SafeString:
    """Bold and code; of a link its text, because the console does not serve the other pages."""
    found = CODE.sub(r"<code>\1</code>", BOLD.sub(r"<strong>\1</strong>", LINK.sub(r"\1", escape(text))))
    return mark_safe(found)  # noqa: S308 - escaped above
