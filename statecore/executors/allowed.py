"""Which commands an operator lets run: programs by name or by absolute path, resolved once; nothing until it is set."""

from __future__ import annotations

import os
import shlex
import shutil
from functools import cache

from django.conf import settings

from .guard import NOT_EXECUTABLE, NOT_FOUND
from .off import Off


class NotAllowed(Exception):
    """A command that is not run, with the exit code it is given and the sentence that says why."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def are_on() -> bool:
    return bool(settings.STATECORE_GATE_COMMANDS)


def require_on() -> None:
    if not are_on():
        raise Off("commands are off: STATECORE_GATE_COMMANDS names no program that may be run")


def arguments(command: str) -> list[str]:
    """The argument list of a command's text, its program by absolute path."""
    require_on()
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NotAllowed(NOT_EXECUTABLE, f"the command cannot be read: {error}") from None
    if not words or "\0" in command:
        raise NotAllowed(NOT_EXECUTABLE, "the command is empty or has a NUL in it")
    programs = _programs(tuple(settings.STATECORE_GATE_COMMANDS))
    if words[0] not in programs:
        raise NotAllowed(NOT_EXECUTABLE, f"{words[0]} is not among the programs that STATECORE_GATE_COMMANDS allows")
    if not (path := programs[words[0]]):
        raise NotAllowed(NOT_FOUND, f"{words[0]} is allowed, but there is no such program here")
    return [path, *words[1:]]


@cache
def _programs(names: tuple[str, ...]) -> dict[str, str]:
    """Each allowed name and where it is; empty where it was not found. Once: a later change of PATH changes nothing."""
    path = os.environ.get("PATH") or os.defpath
    return {name: shutil.which(name, path=path) or "" for name in names}
