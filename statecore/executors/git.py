"""Git commands with a fixed identity, without hooks, filters and configuration of the user or the system."""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterable, Mapping
from functools import cache
from pathlib import Path

from ..kernel.clock import now
from . import command
from .errors import GitFailed, RepositoryNotUsable, WorkerStopping

TIMEOUT = 300.0
OUTPUT_LIMIT = 8_388_608  # lists of paths must not be truncated
OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"),
    *("-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null"),
    # The operator has configured the repository; its owner may be another user.
    *("-c", "safe.directory=*"),
    *("-c", "commit.gpgSign=false", "-c", "gc.auto=0", "-c", "advice.detachedHead=false"),
)
NAME, EMAIL = "Statecore", "statecore@localhost"
ENVIRONMENT = {
    "GIT_AUTHOR_NAME": NAME,
    "GIT_AUTHOR_EMAIL": EMAIL,
    "GIT_COMMITTER_NAME": NAME,
    "GIT_COMMITTER_EMAIL": EMAIL,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}


def run(
    folder: Path,
    *arguments: str,
    feed: str = "",
    keep: Iterable[int] = (),
    extra: Mapping[str, str] | None = None,
    accepted: Container[int] = (0,),
) -> str:
    """Run git in a folder and return its output; raises GitFailed for other exit codes, and WorkerStopping."""
    moment = f"{int(now().timestamp())} +0000"
    result = command.run(
        [_find_git(), *OPTIONS, *arguments],
        folder=folder,
        timeout=TIMEOUT,
        extra={**ENVIRONMENT, "GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment, **(extra or {})},
        feed=feed,
        keep=keep,
        limit=OUTPUT_LIMIT,
        umask=0o022,  # that of settings.py would make the files of the work tree unreadable to others
    )
    if result.stopped:
        raise WorkerStopping
    if result.exit_code not in accepted or result.timed_out:
        message = (result.stderr or result.stdout).strip()
        raise GitFailed(message or f"git {arguments[0]} {result.describe()}")
    return result.stdout.strip("\n")


@cache
def _find_git() -> str:
    found = shutil.which("git")
    if found is None:
        raise RepositoryNotUsable("git was not found on this host")
    return found
