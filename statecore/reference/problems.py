"""The page of the codes that refusals carry."""

from __future__ import annotations

from inspect import cleandoc

from api.openapi.schemas import refusal_classes

from ..derive.tables import table
from . import written


def page() -> str:
    rows = [(f"`{kind.code}`", kind.status, cleandoc(kind.__doc__ or "")) for kind in refusal_classes()]
    return written.page(
        "Codes of refusals",
        "A refusal is `application/problem+json` (RFC 9457) with `type`, `title`, `status`, `detail`, `code` and facts",
        "to act on. It changed nothing.",
        "",
        *table(("code", "status", "says"), rows),
    )
