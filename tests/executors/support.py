"""Commands as text, and gates that run them."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from statecore.kernel.ulid import new_id
from statecore.records import Patch
from tests.support import world


def python(script: str) -> str:
    """A command's text that runs a script."""
    return shlex.join([sys.executable, "-c", script])


def gate(script: str = "", **fields: Any) -> Any:
    return world.gate(**{"command": python(script), **fields})


def fresh(entity: Any) -> Any:
    return type(entity).objects.get(pk=entity.pk)


def patch(diff: str, *, title: str = "", workstream: Any = None) -> Any:
    text = Patch.objects.create(id=new_id("diff"), title=title, diff=diff)
    workstream = workstream or executing()
    return world.created("PatchLedger", patch=text, workstream=workstream)


def executing(**fields: Any) -> Any:
    return world.forced(world.workstream(**fields), "executing")


def path_of(entry: Any) -> list[str]:
    """The states an entity has been in."""
    return [event["to_state"] for event in world.events_of(entry)]
