"""Commands that are allowed, and a repository to work in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.executors.work_tree import WorkTree


@pytest.fixture
def commands(settings: Any, tmp_path: Path) -> Path:
    """Commands are on: this Python is allowed; the folder they run in."""
    folder = tmp_path / "folder"
    folder.mkdir()
    settings.STATECORE_GATE_COMMANDS = (sys.executable, "nowhere-to-be-found")
    settings.STATECORE_GATE_FOLDER = folder
    return folder


@pytest.fixture
def work_tree(settings: Any, tmp_path: Path) -> WorkTree:
    """A repository with one commit, to which patches go."""
    tree = WorkTree(tmp_path / "tree")
    settings.STATECORE_REPOSITORY = tree.path
    settings.STATECORE_HOME = tmp_path / "home"
    settings.STATECORE_HOME.mkdir()
    return tree
