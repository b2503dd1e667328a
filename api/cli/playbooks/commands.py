"""`statecore playbook NAME`: what the playbooks have in common."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import Any

from ..desk import Desk
from . import recover_workstream, reset_breaker, rollback_patch

MINUTES = 30.0


def add(commands: Any) -> None:
    playbook = commands.add_parser("playbook", help="a guided recovery; --dry-run shows its steps")
    books = playbook.add_subparsers(dest="playbook", required=True, metavar="PLAYBOOK")
    recover = books.add_parser("recover-workstream", help="fail what hangs in a workstream, and let it go on")
    recover.add_argument("id", help="the workstream")
    recover.add_argument("--minutes", type=float, default=MINUTES, help=f"what runs longer hangs ({MINUTES:g})")
    rollback = books.add_parser("rollback-patch", help="take a committed patch back by its compensation plan")
    rollback.add_argument("id", help="the patch")
    reset = books.add_parser("reset-breaker", help="try a tool out, and close its breaker if it works")
    for parser, module in ((recover, recover_workstream), (rollback, rollback_patch), (reset, reset_breaker)):
        parser.add_argument("--reason", required=True, help="10 characters or more; stays on record for ever")
        parser.add_argument("--dry-run", action="store_true", help="show each step, and change nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.set_defaults(run=_runner(module))
    reset.add_argument("id", metavar="TOOL", help="whose breaker")
    reset.add_argument("--check", metavar="COMMAND", type=shlex.split, help="tries it out; else `TOOL --version`")


def _runner(module: Any) -> Any:
    def run(options: Namespace, desk: Desk) -> Any:
        return module.run(options, desk)

    return run
