"""A server for all tests of a worker, and agents that are gone at the end of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import site as sites
from tests.support.site import Site


@pytest.fixture(scope="session")
def the_site(django_db_setup: None, redis_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with sites.running(
        tmp_path_factory.mktemp("site"), redis_server,
        STATECORE_RETRY_BASE_SECONDS="0.01", STATECORE_RETRY_CAP_SECONDS="0.01",
    ) as site:  # fmt: skip
        yield site


@pytest.fixture
def site(the_site: Site, transactional_db: None) -> Site:
    """It is up, whatever the test before did to it."""
    if the_site.process is None or the_site.process.poll() is not None:
        the_site.start()
    return the_site


@pytest.fixture
def agents(site: Site, tmp_path: Path) -> Iterator[Callable[..., object]]:
    from tests.agent.process import AgentProcess

    text = sites.token("agent")
    with ExitStack() as started:

        def start(*words: str, **settings: str) -> AgentProcess:
            agent = AgentProcess(tmp_path, site.url, settings.pop("token", text), *words, **settings)
            started.callback(agent.kill)
            return agent

        yield start
