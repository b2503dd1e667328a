"""Parses the command line, runs the command, and turns errors into a message and an exit code."""

from __future__ import annotations

import math
import os
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import GuardFailed, Invalid, StatecoreError
from ..version import __version__
from . import (
    agent,
    approvals,
    artifacts,
    bulk,
    calls,
    holds,
    incidents,
    logs,
    overrides,
    patches,
    proofs,
    reading,
    regression,
    schedules,
    server,
    session,
    transitions,
    watching,
    webhooks,
    witness,
)
from .context import PATIENCE_SECONDS, Context, format_line
from .errors import CommandError, Exit, get_exit_code
from .playbooks import commands as playbooks


def parse_patience(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise ArgumentTypeError("must be seconds, 0 or more")
    return value


class Parser(ArgumentParser):
    """Takes the options that all commands share, so they may come before the command or after it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if "-" not in self.prefix_chars:  # a command that passes its words on
            return
        self.add_argument(
            "--url", dest="server", default=SUPPRESS, help="the server (STATECORE_URL, or the one you logged in to)"
        )
        self.add_argument("--json", action="store_true", default=SUPPRESS, help="one JSON document per line")
        self.add_argument(
            "--patience", type=parse_patience, default=SUPPRESS, metavar="SECONDS",
            help=f"how long to retry while the server does not respond ({PATIENCE_SECONDS:g}; `watch`: no limit)",
        )  # fmt: skip

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.USAGE, f"{self.prog}: {message}\n(see `{self.prog} --help`)\n")


def build_parser() -> Parser:
    parser = Parser(prog="statecore", description="Read Statecore, fire transitions, override states, and run agents.")
    parser.add_argument("--version", action="version", version=f"statecore {__version__}")
    parser.set_defaults(server=None, json=False, patience=None)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (
        session, reading, logs, watching, transitions, bulk, holds, incidents, schedules, overrides, approvals, patches,
        artifacts, regression, playbooks, webhooks, proofs, witness, agent, calls,
    ):  # fmt: skip
        module.add_commands(commands)
    server.add_commands(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(argv)
    context = Context(server=options.server, as_json=options.json, patience=options.patience)
    try:
        code = _run(options, context)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has ended. Python flushes stdout again on exit, so it is redirected to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE_CLOSED
    finally:
        context.close()
    return code


def _run(options: Namespace, context: Context) -> int:
    try:
        return int(options.run(options, context) or Exit.DONE)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except CommandError as stop:
        context.print_note(f"statecore: {stop}")
        return stop.code
    except UnicodeEncodeError as error:
        # The message omits the text itself, which may be the token.
        context.print_note(f"statecore: an argument or the token cannot be encoded: {error.reason}")
        return Exit.INVALID
    except StatecoreError as error:
        _print_error(context, error)
        return get_exit_code(error)


def _print_error(context: Context, error: StatecoreError) -> None:
    context.print_note(f"statecore: {format_line(str(error))}")
    if isinstance(error, GuardFailed):
        for reason in error.unmet:
            context.print_note(f"  {format_line(reason.get('detail'))}")
    elif isinstance(error, Invalid):
        if known := error.facts.get("triggers"):
            context.print_note(f"  known: {format_line(', '.join(map(str, known)))}")
        for field, sentences in error.errors.items() if len(error.errors) > 1 else ():  # the detail has a single one
            context.print_note(f"  {format_line(field)}: {format_line(' '.join(map(str, sentences)))}")
