"""Selects the tests of `scripts/test --fast`: those of the rules, the API and the pages that run within pytest.

Tests that commit, or that start servers, browsers or other processes, find fewer mistakes in the same time.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

IS_FAST = os.environ.get("STATECORE_TEST_FAST") == "1"
TESTS = Path(__file__).parents[1]
FOLDERS = {
    "api", "breakers", "code", "dashboard", "history", "integrity", "kernel", "machines", "metrics", "project",
    "transitions", "work",
}  # fmt: skip
SERVERS = {"page", "redis_server", "running", "site", "transactional_db"}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out other folders before their modules are imported."""
    place = collection_path.relative_to(TESTS).parts if collection_path.is_relative_to(TESTS) else ()
    return True if IS_FAST and place and place[0] not in FOLDERS | {"__init__.py"} else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not IS_FAST:
        return
    config.hook.pytest_deselected(items=[item for item in items if not is_fast(item)])
    items[:] = [item for item in items if is_fast(item)]


def is_fast(item: pytest.Item) -> bool:
    database = item.get_closest_marker("django_db")
    commits = database is not None and database.kwargs.get("transaction", False)
    marked = item.get_closest_marker("slow") or item.get_closest_marker("starts_processes")
    return not (commits or marked or SERVERS & set(getattr(item, "fixturenames", ())))
