"""Reset a circuit breaker: only for a tool that was seen to work."""

from __future__ import annotations

import shutil
import subprocess
from argparse import Namespace

from ..desk import Desk, plain
from ..exits import Stop
from .steps import Steps

CLOSED = "CLOSED"
SECONDS = 60


def run(options: Namespace, desk: Desk) -> None:
    steps = Steps(options, desk, "infrastructure")
    breaker = desk.client.get("breakers", options.id)
    steps.step(f"the breaker of {breaker.id} is {breaker.state}: {plain(breaker.get('last_error')) or 'no error'}")
    if breaker.state == CLOSED:
        steps.step("it is closed already: there is nothing to reset")
        return
    check = options.check or [options.id, "--version"]
    steps.step(f"trying it out: {' '.join(check)}")
    _try_out(check)
    steps.step("it works: closing the breaker")
    steps.ask(f"close the breaker of {breaker.id}?")
    steps.ask_to_force("breakers", breaker.id, CLOSED)


def _try_out(check: list[str]) -> None:
    """Here, on the operator's machine, without a shell."""
    program = shutil.which(check[0])
    if program is None:
        raise Stop(f"{check[0]} is not a program here: say how to try it out with --check")
    try:
        ended = subprocess.run(
            [program, *check[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Stop(f"the tool is still unhealthy: {error}") from None
    if ended.returncode:
        raise Stop(f"the tool is still unhealthy: {' '.join(check)} ended with exit code {ended.returncode}")
