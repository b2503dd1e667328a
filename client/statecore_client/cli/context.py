"""The context of a command: the client, and output for people or for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from .. import Client, RetryPolicy
from ..connection import InvalidUrl
from ..records import NEVER
from .account import Account, find_account
from .errors import CommandError, Exit

PATIENCE_SECONDS = 15.0
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
# Text from the server must not control the terminal: these characters start escape sequences or move the cursor.
CONTROL_CHARACTERS = dict.fromkeys((*range(0x20), 0x7F, *range(0x80, 0xA0)), "�")


class Context:
    def __init__(self, *, server: str | None, as_json: bool, patience: float | None) -> None:
        self.server, self.as_json, self.patience = server, as_json, patience

    @cached_property
    def account(self) -> Account:
        return find_account(os.environ, self.server)

    @cached_property
    def client(self) -> Client:
        return self.open_client(self.account)

    def open_client(self, account: Account) -> Client:
        total = PATIENCE_SECONDS if self.patience is None else self.patience
        try:
            return Client(account.url, account.token, retry_policy=RetryPolicy(total=total))
        except InvalidUrl as error:
            raise CommandError(str(error), Exit.USAGE) from None

    def close(self) -> None:
        if "client" in self.__dict__:  # it was used
            self.client.close()

    # Results go to standard output, everything else to standard error.

    def print_json(self, value: Any) -> None:
        """Prints one JSON document on one line; of a record, its JSON object."""
        sys.stdout.write(json.dumps(getattr(value, "fields", value), ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()

    def print_line(self, text: str = "") -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def print_note(self, sentence: str) -> None:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()

    def print_table(self, rows: Iterable[Sequence[Any]], headings: Sequence[str]) -> None:
        shown = [[format_line(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(headings, *shown, strict=True)]
        for row in [[heading.upper() for heading in headings], *shown]:
            self.print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def print_fields(self, fields: dict[str, Any]) -> None:
        """Prints a line for each field that has a value, and text of several lines as an indented block."""
        width = max(map(len, fields), default=0)
        for name, value in fields.items():
            lines = format_lines(value) if isinstance(value, str) else [format_line(value)]
            if len(lines) > 1:
                self.print_line(f"{name}:")
                for line in lines:
                    self.print_line(f"  {line}".rstrip())
            elif value not in (None, "", [], {}):
                self.print_line(f"{name.ljust(width)}  {lines[0]}")

    # Progress is shown only at a terminal.

    def show_progress(self, sentence: str) -> None:
        if not self.as_json and sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{sentence}")
            sys.stderr.flush()

    def clear_progress(self) -> None:
        if not self.as_json and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    @property
    def is_interactive(self) -> bool:
        """Whether a person can confirm a change: the command runs at a terminal and without --json."""
        return not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()

    def confirm(self, question: str) -> bool:
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def format_lines(text: str) -> list[str]:
    """Returns the lines of a text, tabs expanded and control characters replaced: safe to print to a terminal."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return [line.expandtabs().translate(CONTROL_CHARACTERS) for line in lines]


def format_line(value: Any) -> str:
    """Returns a value as one line that is safe to print to a terminal; line breaks become spaces."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False) if value else "-"
    return " ".join(format_lines(str(value)))


def format_time(text: str | None) -> str:
    return format_line(text and datetime.fromisoformat(text))


def format_age(since: datetime) -> str:
    return "-" if since == NEVER else format_duration((datetime.now(UTC) - since).total_seconds())


def format_duration(seconds: float) -> str:
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "0 s"
