"""A home of its own for each test, and a journal of which the older part may be retired."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.retention.past import Past


@pytest.fixture
def home(settings) -> Iterator[Path]:
    settings.STATECORE_HOME = Path(tempfile.mkdtemp(prefix="home-"))
    settings.STATECORE_RETIRED_DIR = settings.STATECORE_HOME / "retired"
    settings.STATECORE_BACKUP_DIR = settings.STATECORE_HOME / "backup"
    yield settings.STATECORE_HOME
    shutil.rmtree(settings.STATECORE_HOME, ignore_errors=True)


@pytest.fixture
def past(home: Path, transactional_db: None) -> Past:
    """Something that ended, something that goes on, something that was forced; all of it numbered, read and sealed."""
    from tests.retention.past import Past

    return Past.made()
