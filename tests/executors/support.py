"""Create gates and patches for the executor tests."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import Any

import pytest

from statecore.kernel.ids import new_id
from statecore.records import Patch
from tests.support import world


def _host_allows_bubblewrap() -> bool:
    """Try bubblewrap without any code of ours: containers often allow no namespaces."""
    plain = ("bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "true")
    try:
        return subprocess.run(plain, capture_output=True, timeout=60).returncode == 0
    except FileNotFoundError:
        return False


needs_bubblewrap = pytest.mark.skipif(not _host_allows_bubblewrap(), reason="bubblewrap does not work on this host")


def python(script: str) -> str:
    """Return a command line that runs a Python script."""
    return shlex.join([sys.executable, "-c", script])


def gate(script: str = "", **fields: Any) -> Any:
    return world.gate(**{"command": python(script), **fields})


def reload(entity: Any) -> Any:
    return type(entity).objects.get(pk=entity.pk)


def patch(diff: str, *, title: str = "", workstream: Any = None) -> Any:
    text = Patch.objects.create(id=new_id("diff"), title=title, diff=diff)
    workstream = workstream or executing_workstream()
    return world.created("PatchLedger", patch=text, workstream=workstream)


def executing_workstream(**fields: Any) -> Any:
    return world.forced(world.workstream(**fields), "executing")


def states_of(entry: Any) -> list[str]:
    """Return the states the entity has had, in order."""
    return [event["to_state"] for event in world.events_of(entry)]
