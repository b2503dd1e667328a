"""A task that the agent `builder` runs, and a new storage for each test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.artifacts.calls import Builder


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, settings: Any) -> Path:
    """Returns the folder of the contents."""
    options = {"location": str(tmp_path / "artifacts")}
    ours = {"BACKEND": "statecore.artifacts.disk.DiskStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "artifacts": ours}
    return tmp_path / "artifacts"


@pytest.fixture
def builder(db: None) -> Builder:
    from tests.artifacts.calls import Builder

    return Builder.with_plan({"id": "a"}, {"id": "b", "depends_on": ["a"]})
