"""What every command works with: the client, where to write, and whether people or programs read it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from api.client import Client, Patience
from api.client.connection import BadAddress
from api.client.records import NEVER

from . import account
from .exits import Exit, Stop

UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
# Whatever a server tells, it must not steer the terminal it is shown on.
STEERING = dict.fromkeys((*range(0x20), 0x7F, *range(0x80, 0xA0)), "�")


class Desk:
    def __init__(self, *, as_json: bool, patience: float) -> None:
        self.as_json, self.patience = as_json, patience

    @cached_property
    def client(self) -> Client:
        return self.client_for(account.find(os.environ))

    def client_for(self, who: account.Account) -> Client:
        try:
            return Client(who.url, who.token, patience=Patience(total=self.patience))
        except BadAddress as error:
            raise Stop(str(error), Exit.USAGE) from None

    # Answers go to standard output, everything else to standard error.

    def put(self, told: Any) -> None:
        """One JSON document in one line."""
        sys.stdout.write(json.dumps(told, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()

    def line(self, text: str = "") -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def say(self, sentence: str) -> None:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()

    def table(self, rows: Iterable[Sequence[Any]], headings: Sequence[str]) -> None:
        shown = [[plain(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(headings, *shown, strict=True)]
        for row in [[heading.upper() for heading in headings], *shown]:
            self.line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def facts(self, told: dict[str, Any]) -> None:
        """One thing, a line for each of its facts."""
        width = max(map(len, told), default=0)
        for name, value in told.items():
            if value not in (None, "", [], {}):
                self.line(f"{name.ljust(width)}  {plain(value)}")

    # Progress is for people at a terminal.

    def progress(self, sentence: str) -> None:
        if not self.as_json and sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{sentence}")
            sys.stderr.flush()

    def end_progress(self) -> None:
        if not self.as_json and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    @property
    def somebody_is_there(self) -> bool:
        """To be asked: programs have decided before."""
        return not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()

    def confirmed(self, question: str) -> bool:
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def plain(value: Any) -> str:
    """A value in one line that a terminal only shows."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False) if value else "-"
    return str(value).translate(STEERING)


def age(since: datetime) -> str:
    return "-" if since == NEVER else duration((datetime.now(UTC) - since).total_seconds())


def duration(seconds: float) -> str:
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "0 s"
