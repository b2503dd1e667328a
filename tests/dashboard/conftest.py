"""Users of each group and a small world of entities, created once per test module.

Each test runs in a savepoint within that. Imports wait for Django to be set up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def module_db(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    from django.db import transaction

    with django_db_blocker.unblock():
        outer = transaction.atomic()
        outer.__enter__()
        try:
            yield
        finally:
            transaction.set_rollback(True)
            outer.__exit__(None, None, None)


@pytest.fixture(scope="module")
def module_people(module_db: None) -> dict[str, Any]:
    """A user in each group, one in no group, and a superuser."""
    from django.contrib.auth.models import Group, User

    from statecore.dashboard import groups

    groups.create_groups()
    made = {name: User.objects.create(username=name, password="unset") for name in ("viewer", "operator", "supervisor")}
    for name, user in made.items():
        user.groups.add(Group.objects.get(name=name))
    return {
        **made,
        "nobody": User.objects.create(username="nobody", password="unset"),
        "superuser": User.objects.create(username="superuser", password="unset", is_superuser=True, is_staff=True),
    }


@pytest.fixture(scope="module")
def module_scene(module_db: None) -> Any:
    """A running run, a forced task and an alert; all events have positions."""
    from tests.dashboard.scene import build

    return build()


@pytest.fixture
def people(module_people: dict[str, Any], db: Any) -> dict[str, Any]:
    from django.contrib.auth.models import User

    return {name: User.objects.get(pk=user.pk) for name, user in module_people.items()}


@pytest.fixture
def scene(module_scene: Any, db: Any) -> Any:
    from tests.dashboard.scene import fresh

    return fresh(module_scene)
