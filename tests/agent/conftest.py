"""A fixture that starts agent processes and kills them at the end of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import site as sites
from tests.support.site import Site


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
