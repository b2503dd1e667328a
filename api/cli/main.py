"""Reads the command line, runs the command, and turns whatever happens into a sentence and an exit code."""

from __future__ import annotations

import math
import os
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Any, NoReturn

from api.client import GuardFailed, Invalid, StatecoreError

from . import agents, bulk, forcing, moving, reading, session, watching
from .desk import Desk, plain
from .exits import Exit, Stop, code_of
from .playbooks import commands as playbooks

PATIENCE_SECONDS = 15.0


def patience(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise ArgumentTypeError("must be seconds, 0 or more")
    return value


class Parser(ArgumentParser):
    """Every command takes the options of all."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.add_argument("--json", action="store_true", default=SUPPRESS, help="one JSON document per line")
        self.add_argument(
            "--patience", type=patience, default=SUPPRESS, metavar="SECONDS",
            help=f"how long a server that does not answer is tried ({PATIENCE_SECONDS:g})",
        )  # fmt: skip

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.USAGE, f"{self.prog}: {message}\n(`{self.prog} --help` says more)\n")


def build() -> Parser:
    parser = Parser(prog="statecore", description="Look at Statecore, move things, force them, and work for it.")
    parser.set_defaults(json=False, patience=PATIENCE_SECONDS)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (session, reading, watching, moving, bulk, forcing, playbooks, agents):
        module.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    options = build().parse_args(argv)
    desk = Desk(as_json=options.json, patience=options.patience)
    try:
        code = _run(options, desk)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough. Python flushes once more at its end: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE_CLOSED
    return code


def _run(options: Namespace, desk: Desk) -> int:
    try:
        return int(options.run(options, desk) or Exit.DONE)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Stop as stop:
        desk.say(f"statecore: {stop}")
        return stop.code
    except UnicodeEncodeError as error:
        # Which it was is not shown: it may have been the token.
        desk.say(f"statecore: a word, or the token, is not text that can be sent: {error.reason}")
        return Exit.INVALID
    except StatecoreError as error:
        _complain(desk, error)
        return code_of(error)


def _complain(desk: Desk, error: StatecoreError) -> None:
    desk.say(f"statecore: {plain(str(error))}")
    if isinstance(error, GuardFailed):
        for reason in error.unmet:
            desk.say(f"  {plain(reason.get('detail'))}")
    elif isinstance(error, Invalid):
        for field, sentences in error.errors.items():
            desk.say(f"  {plain(field)}: {plain(' '.join(map(str, sentences)))}")
