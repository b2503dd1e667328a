"""The page of the environment variables."""

from __future__ import annotations

from ..derive.tables import section
from ..project.variables import CALLERS, GROUPS, Variable
from . import written


def page() -> str:
    head = ("variable", "default", "meaning")
    groups = [line for title, group in GROUPS.items() for line in section(title, head, map(_row, group))]
    return written.page(
        "Settings",
        "Environment variables. They are checked at start, and a wrong one is refused by its name.",
        "",
        *groups,
        *section("For the command line and the agent", head, map(_row, CALLERS)),
    )


def _row(variable: Variable) -> tuple[str, str, str]:
    return f"`{variable.name}`", f"`{variable.default}`" if variable.default else "", variable.meaning
