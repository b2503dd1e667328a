"""One site per test worker, Debian's Chromium, and users with open sessions.

A page that writes an error to its console or breaks the content security policy fails its test.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DATABASE, WORKER
from tests.support import chromium

WATCH_POLICY = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


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
    site = Site(home, own_database(home))
    yield site
    site.close()
    shutil.rmtree(home, ignore_errors=True)


def own_database(home: Path) -> str:
    if DATABASE == "sqlite":
        return f"sqlite:///{home}/site.sqlite3"
    import os

    import psycopg

    name, server = f"site_{WORKER or 'main'}", os.environ["STATECORE_TEST_POSTGRES"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


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
def visit(site: Any, browser: Any, sessions: dict[str, Any]) -> Iterator[Callable[..., Any]]:
    """Opens a page in a new browser context for a user; fails the test when the browser reported errors.

    A test that breaks a connection calls `expect_errors`: some of what the browser then reports arrives later.
    """
    contexts: list[Any] = []
    errors: list[str] = []
    expected: list[bool] = []

    def collect_error(message: Any) -> None:
        # Errors from scripts that axe injects have no URL.
        if message.type == "error" and message.location["url"]:
            errors.append(message.text)

    def open_page(path: str, who: str = "supervisor", **looks: Any) -> Any:
        context = browser.new_context(
            storage_state=sessions.get(who), viewport=looks.pop("viewport", {"width": 1280, "height": 800}), **looks
        )
        contexts.append(context)
        context.add_init_script(WATCH_POLICY)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("console", collect_error)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{site.url}{path}")
        return page

    open_page.errors = errors  # type: ignore[attr-defined]
    open_page.expect_errors = lambda: expected.append(True)  # type: ignore[attr-defined]
    yield open_page
    for context in contexts:
        context.close()
    assert expected or errors == []
