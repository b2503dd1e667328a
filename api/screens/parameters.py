"""The query string of a call that only reads: each parameter known by name, and read as what it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.http import urlencode

from statecore.kernel.refusals import Invalid

from .. import filters
from ..pages import page_size
from ..request import Request

MOST_VALUES, LONGEST_VALUE, LONGEST_NUMBER = 100, 200, 18


class Query:
    """What an address says behind its question mark."""

    def __init__(self, given: dict[str, list[str]], *known: str) -> None:
        self.given = given
        if strange := self.given.keys() - set(known):
            raise Invalid({name: ["is not a parameter of this call."] for name in sorted(strange)})

    def words(self, name: str) -> list[str]:
        values = self.given.get(name, [])
        if len(values) > MOST_VALUES or any(not 0 < len(value) <= LONGEST_VALUE or "\0" in value for value in values):
            raise Invalid({name: [f"must be at most {MOST_VALUES} values of 1 to {LONGEST_VALUE} characters."]})
        return values

    def word(self, name: str) -> str:
        return self.words(name)[-1] if name in self.given else ""

    def number(self, name: str) -> int | None:
        if name not in self.given:
            return None
        text = self.given[name][-1]
        if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
            raise Invalid({name: ["must be a whole number, 0 or more."]})
        return int(text)

    def size(self) -> int:
        return page_size(self.given)

    def flag(self, name: str) -> bool | None:
        if name not in self.given:
            return None
        text = self.given[name][-1]
        if text not in ("true", "false"):
            raise Invalid({name: ["must be true or false."]})
        return text == "true"

    def moment(self, name: str) -> datetime | None:
        if name not in self.given:
            return None
        try:
            return filters.moment(self.given[name][-1])
        except ValueError as error:
            raise Invalid({name: [str(error)]}) from None


class Parameters(Query):
    """The same of a request, whose answer may lead on to others."""

    def __init__(self, request: Request, *known: str) -> None:
        super().__init__(dict(request.GET.lists()), *known)
        self.request = request

    def backwards(self, told: list[dict[str, Any]], mark: str, *, more: bool) -> dict[str, Any]:
        """A page of what is told newest first: the next one is of what was `before` the last of these."""
        onward = self.address(before=told[-1][mark]) if more else None
        return {"next": onward, "previous": None, "results": told}

    def address(self, **changed: Any) -> str:
        """The same call with other values; None takes one away."""
        query = {name: value for name, value in {**self.given, **changed}.items() if value is not None}
        return self.request.build_absolute_uri(f"{self.request.path}?{urlencode(query, doseq=True)}")
