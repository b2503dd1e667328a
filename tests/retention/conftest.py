"""A home directory with archive and backup folders, and a journal with old events to archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.retention.past import Past


@pytest.fixture
def home(home: Path, settings: Any) -> Path:
    settings.STATECORE_ARCHIVE_DIR = home / "archived-events"
    settings.STATECORE_BACKUP_DIR = home / "backup"
    return home


@pytest.fixture
def past(home: Path, transactional_db: None) -> Past:
    """A numbered and signed journal with a finished run, an active run and a forced one."""
    from tests.retention.past import Past

    return Past.create()
