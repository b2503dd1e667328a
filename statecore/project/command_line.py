"""The commands that `statecore` has where the server is installed: `up`, `server` and `manage`.

The command line of the client adds them. Nothing of the server is imported before one of them runs.
"""

from __future__ import annotations

import sys
from argparse import REMAINDER, Namespace
from typing import Any


def add_commands(commands: Any) -> None:
    summary = "start Statecore in this folder: database, services, web; until Ctrl-C"
    commands.add_parser("up", help=summary, description=summary).set_defaults(run=run_everything)
    _add(commands, "server", run_process, "name of the process, and its options", "run one process of an installation")
    _add(
        commands,
        "manage",
        run_django,
        "name of the command, and its arguments",
        "run a command of Django, or of an operator of the server",
    )


def _add(commands: Any, name: str, run: Any, words: str, summary: str) -> None:
    # All words belong to the command, also those that begin with a dash.
    parser = commands.add_parser(name, help=summary, description=summary, add_help=False, prefix_chars="\0")
    parser.add_argument("words", nargs=REMAINDER, help=words)
    parser.set_defaults(run=run)


def run_everything(_given: Namespace, _context: Any) -> int:
    _prepare("up", [])
    from statecore.project import supervisor

    return supervisor.main()


def run_process(given: Namespace, _context: Any) -> int:
    _prepare("server", given.words)
    from statecore.project import process

    process.main()
    return 0


def run_django(given: Namespace, _context: Any) -> int:
    # The name by which the journal knows changes from the shell.
    _prepare("manage.py", given.words)
    from statecore.project import manage

    manage.main()
    return 0


def _prepare(name: str, words: list[str]) -> None:
    """Sets the arguments as `python -m` does, which also finds modules of the working folder."""
    sys.argv = [name, *words]
    sys.path.insert(0, "")
