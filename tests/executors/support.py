"""Commands as text, and gates that run them."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from tests.support import world


def python(script: str) -> str:
    """A command's text that runs a script."""
    return shlex.join([sys.executable, "-c", script])


def gate(script: str = "", **fields: Any) -> Any:
    return world.gate(**{"command": python(script), **fields})


def fresh(entity: Any) -> Any:
    return type(entity).objects.get(pk=entity.pk)
