"""agent: any program becomes a worker."""

from __future__ import annotations

import os
from argparse import REMAINDER, ArgumentTypeError, Namespace
from typing import Any

from api.agent import Agent, Settings
from api.agent.command import NoSuchProgram
from api.agent.settings import host_name

from . import account
from .desk import Desk
from .exits import Exit, Stop, code_of

LONGEST_WAIT = 30.0


def number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise ArgumentTypeError("must be 1 to 1000")
    return int(text)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= LONGEST_WAIT:
        raise ArgumentTypeError(f"must be seconds, more than 0 and at most {LONGEST_WAIT:g}")
    return value


def add(commands: Any) -> None:
    agent = commands.add_parser(
        "agent",
        help="claim tasks and run a command for each",
        usage="statecore agent [--capability WORD …] [--concurrency N] -- COMMAND [ARGUMENT …]",
        description="The command gets the payload on standard input and in STATECORE_PAYLOAD, and STATECORE_TASK_ID, "
        "STATECORE_ATTEMPT, … beside it. Its exit code decides; its output is kept with the task.",
    )
    agent.add_argument("--capability", action="append", default=[], metavar="WORD", help="what it can do; repeatable")
    agent.add_argument("--workstream", action="append", default=[], metavar="ID", help="work for these alone")
    agent.add_argument("--name", default=host_name(), help="what its workers are called (%(default)s)")
    agent.add_argument("--concurrency", type=number, default=1, metavar="N", help="tasks at once (1)")
    agent.add_argument("--heartbeat", type=seconds, default=10.0, metavar="SECONDS", help="between heartbeats (10)")
    agent.add_argument("--wait", type=seconds, default=25.0, metavar="SECONDS", help="for a task, per claim (25)")
    agent.add_argument("run_command", nargs=REMAINDER, metavar="COMMAND", help="run for each task, without a shell")
    agent.set_defaults(run=work)


def work(options: Namespace, desk: Desk) -> int:
    command = options.run_command[1:] if options.run_command[:1] == ["--"] else options.run_command
    if not command:
        raise Stop("which command? `statecore agent -- COMMAND`", Exit.USAGE)
    who = account.find(os.environ)
    settings = Settings(
        command=tuple(command), url=who.url, token=who.token, capabilities=tuple(options.capability),
        workstreams=tuple(options.workstream), name=options.name, concurrency=options.concurrency,
        heartbeat_seconds=options.heartbeat, wait_seconds=options.wait,
    )  # fmt: skip
    try:
        agent = Agent(settings)
    except NoSuchProgram as error:
        raise Stop(str(error), Exit.INVALID) from None
    code = agent.run()
    return code if agent.failure is None else code_of(agent.failure)
