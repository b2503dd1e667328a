"""The commands of the server, where it is installed beside the client: `up`, `server` and `manage`.

The server declares them. It is found by name, because the client works without it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def add_commands(commands: Any) -> None:
    if find_spec("statecore"):
        import_module("statecore.project.command_line").add_commands(commands)
