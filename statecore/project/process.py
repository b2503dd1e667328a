"""Runs one process of an installation: `statecore server rest --port 8001`.

Units, containers and pods only name the process. Its command and options are part of the version, so deployment files
need not change with an upgrade. `prepare` runs once, before the other processes start.
"""

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from statecore.operations import pulse
from statecore.project import environment, home, metrics_folder, preflight, startup
from statecore.project.commands import COMMANDS
from statecore.project.environment import Environment
from statecore.project.refusal import Refused

PREPARE = "prepare"
LISTENING = ("live", "rest", "web")
NAMED = ("executors", "worker")
RETRY_SECONDS = 1.0


def read(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(prog="statecore server", description=__doc__)
    kinds = parser.add_subparsers(dest="process", required=True)
    for name in (*COMMANDS, PREPARE):
        kind = kinds.add_parser(name)
        if name in LISTENING:
            kind.add_argument("--port", type=int, help="default: PORT")
        if name in NAMED:
            kind.add_argument("--name", help="required if several run on one host")
        if name == PREPARE:
            kind.add_argument("--first", action="store_true", help="no other process runs yet: reset the counters")
            kind.add_argument(
                "--wait", type=float, default=0.0, metavar="SECONDS", help="maximum wait for the database"
            )
    return parser.parse_args(arguments)


def command(given: Namespace, env: Environment) -> list[str]:
    if given.process in LISTENING and given.port is not None:
        env = env.model_copy(update={"port": given.port})
    named = {"name": given.name} if given.process in NAMED and given.name else {}
    return COMMANDS[given.process](env, **named)


def name(given: Namespace) -> str:
    """Returns the name under which the process reports: with the port or the name that distinguishes it from others."""
    if given.process in NAMED and given.name:
        return str(given.name)
    return f"{given.process}-{given.port}" if getattr(given, "port", None) else str(given.process)


def prepare(given: Namespace, env: Environment) -> None:
    """Migrates, and checks declarations and the journal. Safe to repeat, also while other processes run."""
    import django

    if given.first:
        metrics_folder.prepare(env.home)
    django.setup()
    startup.check_declarations()
    await_database(given.wait)
    startup.migrate()
    startup.check_integrity(start_anyway=env.start_anyway)
    startup.check_executor_work()


def await_database(seconds: float) -> None:
    """Waits for the database: after a power failure its host may start later."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return preflight.check_database()
        except Refused:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_SECONDS)


def main() -> None:
    given = read(sys.argv[1:])
    preflight.check_distribution()
    env = environment.read(os.environ)
    os.environ["STATECORE_HOME"] = str(env.home)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
    home.create(env.home)
    metrics_folder.choose(env.home)
    if given.process == PREPARE:
        prepare(given, env)
        return
    os.environ[pulse.NAME] = name(given)
    program = command(given, env)
    os.execv(program[0], program)  # noqa: S606  a fixed command, without a shell


if __name__ == "__main__":
    main()
