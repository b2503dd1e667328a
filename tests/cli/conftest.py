"""A command line with an override token."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.process import Statecore
from tests.support import site as sites
from tests.support.site import Site


@pytest.fixture
def statecore(site: Site, tmp_path: Path) -> Statecore:
    return Statecore(site.url, sites.token("override"), tmp_path)
