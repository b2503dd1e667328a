"""The reference pages of the REST API: its calls and the codes of its refusals."""

from __future__ import annotations

from collections import defaultdict
from inspect import cleandoc
from typing import Any

from statecore.api.openapi.inspector import UNDECLARED
from statecore.api.openapi.schemas import list_refusal_classes
from statecore.api.openapi.views import build_document

from ..markdown import Undocumented, format_page, format_section, format_table

SUCCESS, REFUSAL = "2", "4"


def render_calls_page() -> str:
    """Returns a page with one row per operation of the OpenAPI document."""
    groups = defaultdict[str, list[tuple[str, ...]]](list)
    for path, methods in build_document()["paths"].items():
        for method, operation in methods.items():
            statuses = sorted(operation["responses"])
            returned, refused = (
                ", ".join(status for status in statuses if status.startswith(kind)) for kind in (SUCCESS, REFUSAL)
            )
            call = f"{method.upper()} {path}"
            row = (f"`{call}`", _get_summary(call, operation), returned, refused)
            groups[operation["tags"][0]].append(row)
    head = ("call", "purpose", "success", "refusals")
    return format_page(
        "REST API calls",
        "`/api/v1/schema/` is the same as OpenAPI 3.1, with every field; `/api/v1/docs/` shows it in a browser. Any",
        "call can also return 500 or 503. A path may end with a slash. [Refusal codes](problems.md) explains the",
        "refusals.",
        "",
        *[line for tag in sorted(groups) for line in format_section(tag, head, groups[tag])],
    )


def _get_summary(call: str, operation: dict[str, Any]) -> str:
    if UNDECLARED in operation:
        raise Undocumented(f"{call} is not declared: decorate {operation[UNDECLARED]} with @operation")
    return str(operation["summary"])


def render_problems_page() -> str:
    """Returns a page with one row per refusal code."""
    rows = [(f"`{kind.code}`", kind.status, cleandoc(kind.__doc__ or "")) for kind in list_refusal_classes()]
    return format_page(
        "Refusal codes",
        "A refused request changes nothing. The response is `application/problem+json` (RFC 9457) with `type`,",
        "`title`, `status`, `detail`, `code` and further members that depend on the code.",
        "",
        *format_table(("code", "status", "meaning"), rows),
    )
