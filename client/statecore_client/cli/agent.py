"""`agent`: runs a program for each task it claims."""

from __future__ import annotations

from argparse import REMAINDER, ArgumentTypeError, Namespace
from typing import Any

from ..agent import Agent
from ..agent.command import NoSuchProgram
from ..slots.settings import Settings, get_host_name
from .context import Context
from .errors import CommandError, Exit, get_exit_code

LONGEST_WAIT = 30.0


def parse_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise ArgumentTypeError("must be 1 to 1000")
    return int(text)


def parse_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= LONGEST_WAIT:
        raise ArgumentTypeError(f"must be seconds, more than 0 and at most {LONGEST_WAIT:g}")
    return value


def add_commands(commands: Any) -> None:
    agent = commands.add_parser(
        "agent",
        help="claim tasks and run a command for each",
        usage="statecore agent [--url URL] [--capability WORD …] [--concurrency N] -- COMMAND [ARGUMENT …]",
        description="The command gets the payload on standard input and in STATECORE_PAYLOAD, and STATECORE_TASK_ID, "
        "STATECORE_ATTEMPT, … in its environment. Its exit code is the result; its output is stored with the task.",
    )
    agent.add_argument(
        "--capability", action="append", default=[], metavar="WORD", help="a capability of the agent; repeatable"
    )
    agent.add_argument(
        "--workstream",
        action="append",
        default=[],
        metavar="ID",
        help="claim tasks of this workstream only; repeatable",
    )
    agent.add_argument("--name", default=get_host_name(), help="prefix of the worker ids (%(default)s)")
    agent.add_argument("--concurrency", type=parse_count, default=1, metavar="N", help="number of tasks at a time (1)")
    agent.add_argument(
        "--heartbeat", type=parse_seconds, default=10.0, metavar="SECONDS", help="time between heartbeats (10)"
    )
    agent.add_argument(
        "--wait", type=parse_seconds, default=25.0, metavar="SECONDS", help="how long a claim waits for a task (25)"
    )
    agent.add_argument(
        "--fetch-artifacts", action="store_true",
        help="save the artifacts of the dependencies in $STATECORE_INPUT_ARTIFACTS/TASK/NAME before each command",
    )  # fmt: skip
    agent.add_argument("run_command", nargs=REMAINDER, metavar="COMMAND", help="runs for each task, without a shell")
    agent.set_defaults(run=run_agent)


def run_agent(options: Namespace, context: Context) -> int:
    command = options.run_command[1:] if options.run_command[:1] == ["--"] else options.run_command
    if not command:
        raise CommandError("no command is given: `statecore agent -- COMMAND`", Exit.USAGE)
    account = context.account
    settings = Settings(
        url=account.url, token=account.token, capabilities=tuple(options.capability),
        workstreams=tuple(options.workstream), name=options.name, concurrency=options.concurrency,
        heartbeat_seconds=options.heartbeat, wait_seconds=options.wait, fetches_artifacts=options.fetch_artifacts,
    )  # fmt: skip
    try:
        agent = Agent(settings, command)
    except NoSuchProgram as error:
        raise CommandError(str(error), Exit.INVALID) from None
    code = agent.run()
    return code if agent.failure is None else get_exit_code(agent.failure)
