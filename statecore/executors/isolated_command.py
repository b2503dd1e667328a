"""Execution of one command of a gate, a patch or a rollback: allowed, in a checkout of its own and in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from statecore_client.processes.process_guard import NOT_EXECUTABLE

from . import allowed_commands, checkouts, sandbox
from .checkouts import Source
from .command import STOPPED, Result
from .errors import CommandRejected, GitFailed, WorkerStopping


def run(
    command_line: str,
    source: Source,
    *,
    timeout: float,
    extra: Mapping[str, str] | None = None,
    is_obsolete: Callable[[], bool] = bool,
) -> Result:
    """Return the result of the command, or the reason why it did not run; raises NotEnabled.

    The command is ended when `is_obsolete` returns true.
    """
    try:
        arguments = allowed_commands.resolve_arguments(command_line)
        with checkouts.create(source) as checkout:
            return sandbox.run(arguments, checkout, timeout, extra, is_obsolete)
    except CommandRejected as rejected:
        return Result(rejected.exit_code, stderr=str(rejected), ran=False)
    except WorkerStopping:
        return Result(STOPPED, stderr="the worker is stopping", stopped=True, ran=False)
    except (GitFailed, OSError) as error:
        return Result(NOT_EXECUTABLE, stderr=f"the checkout of {source.folder} failed: {error}", ran=False)
