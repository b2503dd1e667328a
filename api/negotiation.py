"""Which form an answer has: always the same."""

from __future__ import annotations

from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

JSON = "application/json"


class AlwaysJson(BaseContentNegotiation):
    """Whatever a caller would accept, it gets JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0] if parsers else None

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], JSON
