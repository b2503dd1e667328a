"""Fixtures for allowed commands and a git repository."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.executors.work_tree import WorkTree


@pytest.fixture
def commands(settings: Any, tmp_path: Path) -> Path:
    """Allow this Python as a gate command, and return the folder that commands run in."""
    folder = tmp_path / "folder"
    folder.mkdir()
    settings.STATECORE_GATE_COMMANDS = (sys.executable, "nowhere-to-be-found")
    settings.STATECORE_GATE_FOLDER = folder
    return folder


@pytest.fixture
def work_tree(settings: Any, tmp_path: Path) -> WorkTree:
    """A repository with one commit that patches are applied to."""
    tree = WorkTree(tmp_path / "tree")
    settings.STATECORE_REPOSITORY = tree.path
    settings.STATECORE_HOME = tmp_path / "home"
    settings.STATECORE_HOME.mkdir()
    settings.STATECORE_CHECKOUT_DIR = settings.STATECORE_HOME / "checkouts"
    return tree
