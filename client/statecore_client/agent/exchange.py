"""The folder through which a command gets the inputs of its task, and hands over its result and its artifacts."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..clients import Client
from ..records import Task

RESULT_LIMIT = 262_144


class UnusableResult(Exception):
    """The result that the command has written cannot be reported. The message ends a sentence."""


class Exchange:
    """`STATECORE_INPUTS` and `STATECORE_RESULT` are files of JSON, `STATECORE_ARTIFACTS` a folder to fill."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.folder = Path(tempfile.mkdtemp(prefix="statecore-"))
        self.inputs, self.result = self.folder / "inputs.json", self.folder / "result.json"
        self.artifacts, self.given = self.folder / "artifacts", self.folder / "input-artifacts"
        self.inputs.write_text(json.dumps(task.inputs))
        self.artifacts.mkdir()
        self.given.mkdir()

    def fetch(self, client: Client) -> None:
        """Saves the artifacts of the dependencies, in a folder for each."""
        for dependency in self.task.inputs:
            for artifact in client.list_artifacts(dependency, newest=True):
                path = self.given / dependency / artifact.name
                path.parent.mkdir(exist_ok=True)
                with path.open("wb") as file:
                    client.save_artifact(artifact.task, artifact.name, file)

    @property
    def variables(self) -> dict[str, str]:
        return {
            "STATECORE_INPUTS": str(self.inputs),
            "STATECORE_RESULT": str(self.result),
            "STATECORE_ARTIFACTS": str(self.artifacts),
            "STATECORE_INPUT_ARTIFACTS": str(self.given),
        }

    def read_result(self) -> Any:
        """Returns the result, None if the command has written none; raises UnusableResult."""
        if not self.result.is_file() or not (size := self.result.stat().st_size):
            return None
        if size > RESULT_LIMIT:
            raise UnusableResult(f"has {size} bytes, more than {RESULT_LIMIT}: store it as an artifact")
        try:
            return json.loads(self.result.read_bytes())
        except (ValueError, RecursionError) as error:
            raise UnusableResult(f"is not JSON: {error}") from None

    def store(self, client: Client) -> None:
        """Stores each file of the folder as an artifact of the task, under its name."""
        for path in self._list_files():
            with path.open("rb") as file:
                client.put_artifact(self.task.id, path.name, file, attempt=self.task.attempt)

    def _list_files(self) -> Iterator[Path]:
        """Links are left out: a link could name a file that the command itself may not read."""
        for entry in sorted(os.scandir(self.artifacts), key=lambda each: each.name):
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
