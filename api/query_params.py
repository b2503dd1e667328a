"""Query strings of calls that read: unknown parameters are refused, known ones are converted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.http import urlencode

from statecore.journal.epochs import Cursor
from statecore.kernel.refusals import Invalid

from . import filters
from .pages import read_page_size
from .request import Request

MAX_VALUES, MAX_VALUE_LENGTH, MAX_DIGITS = 100, 200, 18


class QueryParams:
    """The parameters of a query string. Every method raises Invalid for a value that cannot be converted."""

    def __init__(self, given: dict[str, list[str]], *known: str) -> None:
        self.given = given
        if unknown := self.given.keys() - set(known):
            raise Invalid({name: ["is not a parameter of this call."] for name in sorted(unknown)})

    def get_texts(self, name: str) -> list[str]:
        values = self.given.get(name, [])
        if len(values) > MAX_VALUES or any(not 0 < len(value) <= MAX_VALUE_LENGTH or "\0" in value for value in values):
            raise Invalid({name: [f"must be at most {MAX_VALUES} values of 1 to {MAX_VALUE_LENGTH} characters."]})
        return values

    def get_text(self, name: str) -> str:
        return self.get_texts(name)[-1] if name in self.given else ""

    def get_number(self, name: str) -> int | None:
        if name not in self.given:
            return None
        text = self.given[name][-1]
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
            raise Invalid({name: ["must be a whole number, 0 or more."]})
        return int(text)

    def get_cursor(self, name: str) -> Cursor | None:
        """Return a position with or without its epoch."""
        if name not in self.given:
            return None
        if (cursor := Cursor.parse(self.given[name][-1])) is None:
            raise Invalid({name: ["must be a position, a whole number of 0 or more, or EPOCH-POSITION."]})
        return cursor

    def get_page_size(self) -> int:
        return read_page_size(self.given)

    def get_flag(self, name: str) -> bool | None:
        if name not in self.given:
            return None
        text = self.given[name][-1]
        if text not in ("true", "false"):
            raise Invalid({name: ["must be true or false."]})
        return text == "true"

    def get_time(self, name: str) -> datetime | None:
        if name not in self.given:
            return None
        try:
            return filters.parse_time(self.given[name][-1])
        except ValueError as error:
            raise Invalid({name: [str(error)]}) from None


class RequestParams(QueryParams):
    """The parameters of a request, and links to the same call with other values."""

    def __init__(self, request: Request, *known: str) -> None:
        super().__init__(dict(request.GET.lists()), *known)
        self.request = request

    def build_page_newest_first(self, results: list[dict[str, Any]], key: str, *, more: bool) -> dict[str, Any]:
        """Return a page with a link to the next one, which has the results before the `key` of the last result."""
        following = self.build_url(before=results[-1][key]) if more else None
        return {"next": following, "previous": None, "results": results}

    def build_page_by_id(self, results: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
        """Return a page with a link to the next one, which has the results after the id of the last result."""
        following = self.build_url(after=results[-1]["id"]) if more else None
        return {"next": following, "previous": None, "results": results}

    def build_url(self, **changed: Any) -> str:
        """Return the URL of this call with changed parameters; None removes one."""
        query = {name: value for name, value in {**self.given, **changed}.items() if value is not None}
        return self.request.build_absolute_uri(f"{self.request.path}?{urlencode(query, doseq=True)}")
