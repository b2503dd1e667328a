"""`statecore playbook NAME`: the commands and options of the playbooks."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from ..context import Context
from . import recover_workstream, reset_breaker, rollback_patch

MINUTES = 30.0


def add_commands(commands: Any) -> None:
    playbook = commands.add_parser("playbook", help="run a guided recovery; --dry-run shows its steps")
    playbooks = playbook.add_subparsers(dest="playbook", required=True, metavar="PLAYBOOK")
    recover = playbooks.add_parser(
        "recover-workstream", help="fail tasks that run too long, so that their workstream can continue"
    )
    recover.add_argument("id", help="the workstream")
    recover.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"treat tasks that run longer as stuck ({MINUTES:g})"
    )
    recover.add_argument(
        "--then",
        choices=("retry", "fail"),
        help="what follows when all tasks have ended and some will not complete: retry those, or fail the workstream "
        "(the commands are printed)",
    )
    _add_rollback(playbooks)
    _add_rollback(commands)
    reset = playbooks.add_parser("reset-breaker", help="check a tool, and close its breaker if it works")
    for parser, module in ((recover, recover_workstream), (reset, reset_breaker)):
        _add_options(parser, module.run)
    reset.add_argument("id", metavar="TOOL", help="the tool of the breaker")
    reset.add_argument(
        "--check",
        metavar="COMMAND",
        type=shlex.split,
        help="a command that succeeds if the tool works (`TOOL --version`)",
    )


def _add_rollback(commands: Any) -> None:
    rollback = commands.add_parser("rollback-patch", help="roll back a committed patch by its compensation plan")
    rollback.add_argument("id", help="the patch")
    rollback.add_argument(
        "--revert-commit",
        metavar="SHA",
        default="",
        help="the commit by which the patch was reverted already, if a person made it; it is verified",
    )
    _add_options(rollback, rollback_patch.run)


def _add_options(parser: ArgumentParser, run: Callable[[Namespace, Context], None]) -> None:
    parser.add_argument("--reason", required=True, help="10 characters or more; recorded in the journal")
    parser.add_argument("--dry-run", action="store_true", help="show each step, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.set_defaults(run=run)
