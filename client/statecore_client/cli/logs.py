"""`logs`: the log of a task, and what its agent writes until the attempt has ended."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from .. import LogLine, Outage
from .context import Context, format_line, format_lines

MARKS = {"stdout": "", "stderr": "stderr: ", "system": "… "}
RED, RESET = "\x1b[31m", "\x1b[0m"


def parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


def add_commands(commands: Any) -> None:
    logs = commands.add_parser("logs", help="show the log of a task")
    logs.add_argument("id", help="the task")
    logs.add_argument("-f", "--follow", action="store_true", help="wait for more lines until the attempt has ended")
    logs.add_argument("--attempt", type=parse_number, metavar="N", help="only this attempt (all)")
    logs.add_argument("--after", type=parse_number, default=0, metavar="LINE", help="start after this line (0)")
    logs.add_argument("-t", "--timestamps", action="store_true", help="show the number and the time of each line")
    logs.set_defaults(run=show_log)


def show_log(options: Namespace, context: Context) -> None:
    for line in _follow(options, context) if options.follow else _read(options, context):
        if context.as_json:
            context.print_json(line)
        else:
            _print_line(options, context, line)


def _read(options: Namespace, context: Context) -> Iterator[LogLine]:
    return context.client.read_log(options.id, after=options.after, attempt=options.attempt)


def _follow(options: Namespace, context: Context) -> Iterator[LogLine]:
    def report(outage: Outage) -> None:
        if outage.attempt == 1:
            context.print_note(f"statecore: connection lost, reconnecting ({format_line(outage.error)})")

    return context.client.follow_log(
        options.id, after=options.after, attempt=options.attempt, give_up_after=context.patience, on_outage=report
    )


def _print_line(options: Namespace, context: Context, line: LogLine) -> None:
    """Prints a line of standard error with a word, and in red at a terminal."""
    start = f"{line.number:>6} {line.at.astimezone(UTC):%H:%M:%S} " if options.timestamps else ""
    red, reset = (RED, RESET) if line.stream == "stderr" and sys.stdout.isatty() else ("", "")
    for text in format_lines(line.text):
        context.print_line(f"{start}{red}{MARKS.get(line.stream, '')}{text}{reset}")
