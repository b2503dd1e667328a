"""The allow-list of programs: names or absolute paths from STATECORE_GATE_COMMANDS, resolved once."""

from __future__ import annotations

import os
import shlex
import shutil
from functools import cache
from pathlib import Path

from django.conf import settings

from statecore_client.processes.process_guard import NOT_EXECUTABLE, NOT_FOUND

from . import sandbox
from .errors import CommandRejected, NotEnabled


def are_enabled() -> bool:
    return bool(settings.STATECORE_GATE_COMMANDS)


def require_enabled() -> None:
    """Raise NotEnabled if this process may not run commands, also where the required sandbox is missing."""
    if not are_enabled():
        raise NotEnabled("commands are disabled: STATECORE_GATE_COMMANDS is empty")
    sandbox.require()


def resolve_arguments(command: str) -> list[str]:
    """Split a command line into arguments, with the absolute path of the program; raises CommandRejected."""
    require_enabled()
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandRejected(NOT_EXECUTABLE, f"the command cannot be parsed: {error}") from None
    if not words or "\0" in command:
        raise CommandRejected(NOT_EXECUTABLE, "the command is empty or contains a NUL character")
    visible = tuple(sandbox.visible()) if sandbox.is_active() else ()
    programs = _resolve_programs(tuple(settings.STATECORE_GATE_COMMANDS), visible)
    if words[0] not in programs:
        raise CommandRejected(NOT_EXECUTABLE, f"{words[0]} is not allowed by STATECORE_GATE_COMMANDS")
    if not (path := programs[words[0]]):
        raise CommandRejected(NOT_FOUND, f"{words[0]} is allowed but was not found on this host")
    if visible and not sandbox.can_read(Path(path)):
        raise CommandRejected(NOT_FOUND, f"{path} is outside the sandbox: add its directory to STATECORE_SANDBOX_READ")
    return [path, *words[1:]]


@cache
def _resolve_programs(names: tuple[str, ...], visible: tuple[Path, ...]) -> dict[str, str]:
    """Return the path of each allowed program, or an empty string. Cached: later changes of PATH have no effect."""
    return {name: _resolve(name, visible) for name in names}


def _resolve(name: str, visible: tuple[Path, ...]) -> str:
    """Prefer the first program in PATH that the sandbox can read, if there is a sandbox."""
    folders = (os.environ.get("PATH") or os.defpath).split(os.pathsep)
    # The folder may be a link into one that the sandbox can read.
    places = [place for folder in folders for place in (folder, os.path.realpath(folder))]
    found = [path for place in places if (path := shutil.which(name, path=place))]
    return next((path for path in found if not visible or sandbox.can_read(Path(path))), found[0] if found else "")
