"""An agent that stores artifacts over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from statecore.records import ArtifactContent
from statecore.scheduling import submit_plan
from tests.api.callers import Caller, expect_ok
from tests.support import world


class Builder(Caller):
    """Has claimed the tasks that are ready."""

    @classmethod
    def with_plan(cls, *tasks: dict[str, Any]) -> Builder:
        parts = [{"id": "w", "tasks": [*tasks]}]
        plan = {"id": "r", "phase": world.phase().pk, "start": True, "workstreams": parts}
        submit_plan(plan, actor=world.operator())
        made = cls("agent")
        expect_ok(made.post("workers/", {"id": "w1", "max_concurrent_tasks": 9}), 201)
        made.claim()
        return made

    def claim(self) -> list[dict[str, Any]]:
        return list(expect_ok(self.post("workers/w1/claim/"))["tasks"])

    def complete(self, task_id: str, **fields: Any) -> Any:
        report = {"trigger": "execution_completed", "attempt": 1, "exit_code": 0, **fields}
        return expect_ok(self.post(f"tasks/{task_id}/transitions/", report))


def put(caller: Caller, path: str, body: bytes, content_type: str = "application/octet-stream", **headers: str) -> Any:
    """Stores an artifact; `path` is `TASK/NAME` with a query string."""
    task_id, _, name = path.partition("/")
    given = {"Authorization": f"Bearer {caller.text}", **headers}
    url = f"/api/v1/tasks/{task_id}/artifacts/{name}"
    return caller.client.put(url, data=body, content_type=content_type, headers=given)


def get(caller: Caller, path: str, **headers: str) -> Any:
    task_id, _, name = path.partition("/")
    return caller.get(f"tasks/{task_id}/artifacts/{name}", **headers)


def read(response: Any) -> bytes:
    assert response.status_code in (200, 206), response
    return b"".join(response.streaming_content)  # closes the response


def files_in(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file of the storage, by the name in the table."""
    found = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def stored_contents() -> dict[str, str]:
    return dict(ArtifactContent.objects.values_list("name", "sha256"))
