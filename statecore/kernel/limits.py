"""Limits on the fields that agents set. Operators set any value that the field allows."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from django.conf import settings


class Limit(Protocol):
    def describe(self) -> str: ...

    def error(self, value: Any) -> str | None:
        """Returns why an agent may not set the value, or None. Values of a wrong type are left to the field."""


@dataclass(frozen=True, slots=True)
class NoLimit:
    def describe(self) -> str:
        return "any value"

    def error(self, value: Any) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class AtMost:
    """A number up to a setting."""

    setting: str

    def describe(self) -> str:
        return f"at most `{self.setting}`"

    def error(self, value: Any) -> str | None:
        most = getattr(settings, self.setting)
        is_above = isinstance(value, int) and value > most
        return f"may be at most {most} for agents ({self.setting})." if is_above else None


@dataclass(frozen=True, slots=True)
class BytesAtMost:
    """A JSON value whose text has at most the number of bytes of a setting."""

    setting: str

    def describe(self) -> str:
        return f"at most `{self.setting}` bytes of JSON"

    def error(self, value: Any) -> str | None:
        most = getattr(settings, self.setting)
        is_above = len(orjson.dumps(value, default=str)) > most
        return f"may have at most {most} bytes for agents ({self.setting})." if is_above else None


@dataclass(frozen=True, slots=True)
class ListedProgram:
    """A command whose program is on the list of a setting; any command while the list is empty, as none is run."""

    setting: str

    def describe(self) -> str:
        return f"a program of `{self.setting}`, any command while none is listed"

    def error(self, value: Any) -> str | None:
        allowed = getattr(settings, self.setting)
        if not allowed or not isinstance(value, str):
            return None
        try:
            words = shlex.split(value)
        except ValueError as error:
            return f"cannot be parsed: {error}."
        is_listed = bool(words) and words[0] in allowed
        return None if is_listed else f"must begin with one of {', '.join(allowed)} ({self.setting})."


ANY = NoLimit()
