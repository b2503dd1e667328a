"""A home of its own for each test, with a path short enough for a socket."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home(settings) -> Iterator[Path]:
    settings.STATECORE_HOME = Path(tempfile.mkdtemp(prefix="home-"))
    yield settings.STATECORE_HOME
    shutil.rmtree(settings.STATECORE_HOME, ignore_errors=True)
