"""Becomes one process of an installation: `python -m statecore.project.process rest --port 8001`.

Units, containers and pods name the process; what it runs, with which options, is decided here and changes with the
version, not with the files of whoever operates it. `prepare` is what happens once before the others start.
"""

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace

from statecore.project import environment, metrics_folder, preflight, secret, startup
from statecore.project.commands import COMMANDS
from statecore.project.environment import Environment
from statecore.project.refusal import Refused

PREPARE = "prepare"
LISTENING = ("live", "rest", "web")
NAMED = ("executors", "worker")
PAUSE = 1.0


def read(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(prog="statecore.project.process", description=__doc__)
    kinds = parser.add_subparsers(dest="process", required=True)
    for name in (*COMMANDS, PREPARE):
        kind = kinds.add_parser(name)
        if name in LISTENING:
            kind.add_argument("--port", type=int, help="PORT, unless given")
        if name in NAMED:
            kind.add_argument("--name", help="needed where several run on one machine")
        if name == PREPARE:
            kind.add_argument("--first", action="store_true", help="nothing else runs yet: counts begin anew")
            kind.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="for the database, at most")
    return parser.parse_args(arguments)


def command(given: Namespace, env: Environment) -> list[str]:
    if given.process in LISTENING and given.port is not None:
        env = replace(env, port=given.port)
    named = {"name": given.name} if given.process in NAMED and given.name else {}
    return COMMANDS[given.process](env, **named)


def prepare(given: Namespace, env: Environment) -> None:
    """Safe to repeat and to run beside the others: migrates, and refuses machines and a journal that are not sound."""
    import django

    if given.first:
        metrics_folder.prepare(env.home)
    django.setup()
    startup.check_declarations()
    await_database(given.wait)
    startup.migrate()
    startup.check_integrity(start_anyway=env.start_anyway)


def await_database(seconds: float) -> None:
    """After a power cut the machine of the database may be the last to come back."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return preflight.check_database()
        except Refused:
            if time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE)


def main() -> None:
    given = read(sys.argv[1:])
    preflight.check_distribution()
    env = environment.read(os.environ)
    os.environ["STATECORE_HOME"] = str(env.home)
    os.environ["DJANGO_SETTINGS_MODULE"] = "statecore.project.settings"
    secret.make_home(env.home)
    metrics_folder.choose(env.home)
    if given.process == PREPARE:
        prepare(given, env)
        return
    program = command(given, env)
    os.execv(program[0], program)  # noqa: S606  a program of ours, without a shell


if __name__ == "__main__":
    main()
