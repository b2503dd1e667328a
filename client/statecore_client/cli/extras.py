"""Imports the modules of commands that need the extra `verify`, when the command runs."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from .errors import CommandError, Exit

PACKAGES = ("cryptography", "orjson")


def import_verifying(name: str) -> ModuleType:
    """Returns a module of this package. Raises CommandError if a package of the extra is not installed."""
    try:
        return import_module(f".{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        sentence = 'this command needs the extra `verify`: pip install "statecore-client[verify]"'
        raise CommandError(sentence, Exit.USAGE) from None
