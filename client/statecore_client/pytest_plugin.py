"""The fixture `statecore_server`: a server for all tests of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .testing import Server, running_server


@pytest.fixture(scope="session")
def statecore_server() -> Iterator[Server]:
    with running_server() as server:
        yield server
