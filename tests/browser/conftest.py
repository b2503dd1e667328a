"""One site per test worker, Debian's Chromium, and users with open sessions.

A page that writes an error to its console or breaks the content security policy fails its test.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.visits import Visits
from tests.support import chromium, databases


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_type_launch_args, **chromium.options()}


@pytest.fixture(scope="session", autouse=True)
def _patience() -> None:
    """Reconnecting pages back off, and a busy machine is slow."""
    from playwright.sync_api import expect

    expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def site() -> Iterator[Any]:
    from tests.browser.site import Site

    home = Path(tempfile.mkdtemp(prefix="site-"))
    site = Site(home, databases.create_database(home, migrated=True))
    yield site
    site.close()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def sessions(site: Any, browser: Any) -> dict[str, Any]:
    """The cookies of each user, so that each logs in once."""
    from tests.browser.site import PASSWORD

    found = {}
    for name in ("viewer", "operator", "supervisor", "admin"):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{site.url}/login/")
        page.fill("#id_username", name)
        page.fill("#id_password", PASSWORD)
        page.click("text=Log in >> nth=-1")
        page.wait_for_selector("#freshness")
        found[name] = context.storage_state()
        context.close()
    return found


@pytest.fixture
def visit(site: Any, browser: Any, sessions: dict[str, Any]) -> Iterator[Visits]:
    visits = Visits(site.url, browser, sessions)
    yield visits
    visits.close()
