"""How a generated page begins."""

from __future__ import annotations

BY = "Written by `manage.py machines --docs`; a test fails when it is out of date."


def page(title: str, *lines: str) -> str:
    return "\n".join([f"# {title}", "", BY, "", *lines]).rstrip() + "\n"
