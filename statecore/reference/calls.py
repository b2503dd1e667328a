"""The page of the calls of the REST API: a row for each operation of the OpenAPI document."""

from __future__ import annotations

from collections import defaultdict

from api.openapi.views import document

from ..derive.tables import section
from . import written

REFUSALS = "4"


def page() -> str:
    groups = defaultdict[str, list[tuple[str, ...]]](list)
    for address, methods in document()["paths"].items():
        for method, operation in methods.items():
            refused = ", ".join(sorted(status for status in operation["responses"] if status.startswith(REFUSALS)))
            told = ", ".join(sorted(status for status in operation["responses"] if status.startswith("2")))
            groups[operation["tags"][0]].append((f"`{method.upper()} {address}`", operation["summary"], told, refused))
    head = ("call", "does", "answers", "may refuse with")
    return written.page(
        "Calls of the REST API",
        "`/api/v1/schema/` is the same as OpenAPI 3.1, with every field; `/api/v1/docs/` is a page to read. Beside",
        "what is listed any call may be answered with 500 or 503. [Refusals](problems.md) have a code each.",
        "",
        *[line for tag in sorted(groups) for line in section(tag, head, groups[tag])],
    )
