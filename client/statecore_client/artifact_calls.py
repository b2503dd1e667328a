"""The calls that transfer artifacts, the files that a task keeps by name."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO, Any

from .call import Call, DecodedResponse, build_path, call, drop_none, quote_part
from .calls import Calls
from .models import Artifact
from .readers import read_as, read_nothing
from .transfer import Content, Download

OPAQUE = "application/octet-stream"


class ArtifactCalls(Calls):
    @call
    def put_artifact(
        self,
        task_id: str,
        name: str,
        content: bytes | IO[bytes],
        *,
        attempt: int | None = None,
        content_type: str = OPAQUE,
    ) -> Call[Artifact]:
        """Stores bytes or an open file under a name, in place of what was stored before; repeating it is harmless.

        Agents name the attempt at the task that they hold; `LeaseLost` if they no longer hold it. The file is sent from
        its current position, in pieces, and must be seekable.
        """
        return Call(
            "PUT", _build_artifact_path(task_id, name), read_as(Artifact), params=drop_none(attempt=attempt),
            content=Content(content, content_type),
        )  # fmt: skip

    @call
    def get_artifact(self, task_id: str, name: str, *, newest: bool = False) -> Call[bytes]:
        """Returns the content of an artifact, in memory."""
        memory = io.BytesIO()
        download = Download(memory)

        def read(response: DecodedResponse) -> bytes:
            download.check(response.json)
            return memory.getvalue()

        path = _build_artifact_path(task_id, name)
        return Call("GET", path, read, params=_build_params(newest), download=download)

    @call
    def save_artifact(self, task_id: str, name: str, file: IO[bytes], *, newest: bool = False) -> Call[None]:
        """Writes the content of an artifact to a file, which must be seekable, in pieces.

        Raises `UnexpectedResponse` if the content differs from its digest.
        """
        download = Download(file)

        def read(response: DecodedResponse) -> None:
            download.check(response.json)

        path = _build_artifact_path(task_id, name)
        return Call("GET", path, read, params=_build_params(newest), download=download)

    @call
    def delete_artifact(self, task_id: str, name: str, *, attempt: int | None = None) -> Call[None]:
        """Deletes an artifact; raises `NotFound` if there is none."""
        return Call("DELETE", _build_artifact_path(task_id, name), read_nothing, params=drop_none(attempt=attempt))


def _build_artifact_path(task_id: str, name: str) -> str:
    return build_path("tasks", task_id, "artifacts") + quote_part(name)


def _build_params(newest: bool) -> Mapping[str, Any]:
    return {"newest": "true"} if newest else {}
