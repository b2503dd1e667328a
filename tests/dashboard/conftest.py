"""People of each group, and one of everything to look at: made once for each file of tests.

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
    """One of each group, one without any, one who may do everything."""
    from django.contrib.auth.models import Group, User

    from dashboard import groups

    groups.make()
    made = {name: User.objects.create(username=name, password="!") for name in ("viewer", "operator", "supervisor")}
    for name, user in made.items():
        user.groups.add(Group.objects.get(name=name))
    return {
        **made,
        "nobody": User.objects.create(username="nobody", password="!"),
        "superuser": User.objects.create(username="superuser", password="!", is_superuser=True, is_staff=True),
    }


@pytest.fixture(scope="module")
def module_scene(module_db: None) -> Any:
    """A run under way, something forced, an alert; all of it numbered."""
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
