"""Resets a circuit breaker after checking that its tool works."""

from __future__ import annotations

import shutil
import subprocess
from argparse import Namespace

from ..context import Context, format_line
from ..errors import CommandError
from .steps import Steps

CLOSED = "CLOSED"
SECONDS = 60


def run(options: Namespace, context: Context) -> None:
    steps = Steps(options, context, "infrastructure")
    breaker = context.client.get("breakers", options.id)
    steps.print_step(
        f"the breaker of {breaker.id} is {breaker.state}: {format_line(breaker.get('last_error')) or 'no error'}"
    )
    if breaker.state == CLOSED:
        steps.print_step("it is already closed; nothing to do")
        return
    check = options.check or [options.id, "--version"]
    steps.print_step(f"checking the tool: {' '.join(check)}")
    _check_tool(check)
    steps.print_step("it works: closing the breaker")
    steps.confirm(f"close the breaker of {breaker.id}?")
    steps.confirm_and_force("breakers", breaker.id, CLOSED)


def _check_tool(check: list[str]) -> None:
    """Runs the check on this host, without a shell; raises CommandError if it fails."""
    program = shutil.which(check[0])
    if program is None:
        raise CommandError(f"{check[0]} is not a program on this host: give another command with --check")
    try:
        ended = subprocess.run(
            [program, *check[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"the tool still fails: {error}") from None
    if ended.returncode:
        raise CommandError(f"the tool still fails: {' '.join(check)} ended with exit code {ended.returncode}")
