"""The admin is read-only for every user."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.dashboard.scene import Scene
from tests.support import world


@pytest.fixture
def staff(people: dict[str, Any]) -> Client:
    """A staff user who may see tasks and nothing else."""
    user = people["nobody"]
    user.is_staff = True
    user.save()
    user.user_permissions.add(Permission.objects.get(codename="view_task"))
    client = Client()
    client.force_login(user)
    return client


def test_the_index_shows_states_and_overrides_of_visible_machines(
    staff: Client, people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["superuser"])
    everything, a_little = client.get("/admin/").content.decode(), staff.get("/admin/").content.decode()

    assert "/machines/runs/" in everything
    assert "scene-t3" in everything
    assert "/machines/runs/" not in a_little
    assert "/machines/tasks/" in a_little


def test_an_entity_shows_its_history_and_permitted_actions(
    staff: Client, people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["superuser"])
    body, little = (each.get("/admin/statecore/task/scene-t3/change/").content.decode() for each in (client, staff))

    assert world.REASON in body
    assert '<div class="readonly">cancelled</div>' in body
    assert "/machines/tasks/scene-t3/force/" not in body  # a final state cannot be left
    live = client.get("/admin/statecore/task/scene-t1/change/").content.decode()
    assert "/machines/tasks/scene-t1/force/" in live
    assert world.REASON in little
    assert "/machines/tasks/scene-t3/force/" not in little


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/admin/statecore/task/scene-t1/change/", {"state": "completed", "_save": "Save"}),
        ("/admin/statecore/task/scene-t1/delete/", {"post": "yes"}),
        ("/admin/statecore/task/add/", {"id": "x", "state": "completed"}),
        ("/admin/statecore/task/", {"action": "delete_selected", "_selected_action": "scene-t1", "post": "yes"}),
        ("/machines/tasks/scene-t1/force/", {"to": "completed", "reason": "because I say so", "category": "other"}),
    ],
)
def test_the_admin_refuses_every_write(path: str, body: dict[str, str], staff: Client, scene: Scene) -> None:
    before = world.trace(scene.first)
    staff.post(path, body)

    assert world.trace(scene.first) == before


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/admin/statecore/task/?state=%00", 400),
        ("/admin/statecore/task/?q=%00", 400),
        ("/admin/statecore/task/?%00=1", 400),
        ("/admin/statecore/event/?kind__exact=a%00", 400),
        ("/admin/statecore/task/a%00b/change/", 400),
        ("/admin/statecore/task/_00/change/", 302),
        ("/admin/statecore/task/_00/history/", 302),
        ("/admin/statecore/task/_00/delete/", 403),
    ],
)
def test_an_id_that_no_database_stores_causes_no_server_error(
    address: str, status: int, people: dict[str, Any], client: Client
) -> None:
    client.force_login(people["superuser"])
    assert client.get(address).status_code == status


MACHINES = ("run", "task", "worker", "testgate", "patchledger", "event", "phase")


def test_the_admin_shows_only_permitted_machines(staff: Client, scene: Scene) -> None:
    """Not in lists, on entity pages, through relations or by autocompletion."""
    for name in set(MACHINES) - {"task"}:
        for rest in ("", "x/change/", "x/history/", "x/delete/", "add/"):
            assert staff.get(f"/admin/statecore/{name}/{rest}").status_code in (302, 403), f"{name}/{rest}"
        assert staff.get(f"/admin/statecore/{name}/").status_code == 403, name
    assert staff.get("/admin/statecore/task/?workstream__run__metadata__contains=x").status_code in (302, 400)
    assert staff.get("/admin/statecore/task/?worker__last_error__startswith=a").status_code in (302, 400)
    asked = {"app_label": "statecore", "model_name": "task", "field_name": "workstream", "term": "scene"}
    assert staff.get("/admin/autocomplete/", asked).status_code == 403
    assert staff.get("/admin/axes/accessattempt/").status_code == 403


def test_a_longer_list_runs_no_more_queries(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["superuser"])

    def questions() -> int:
        with CaptureQueriesContext(connection) as asked:
            client.get("/admin/statecore/task/")
        return len(asked)

    questions()
    few = questions()
    for number in range(10):
        world.task(id=f"more-{number}", workstream=scene.first.workstream)
    assert questions() == few


def test_no_filter_counts_a_whole_table(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["superuser"])
    with CaptureQueriesContext(connection) as asked:
        body = client.get("/admin/statecore/task/?_facets=True").content.decode()

    assert "Show counts" not in body
    counts = [query["sql"] for query in asked if "COUNT(" in query["sql"].upper()]
    assert all("LIMIT" in sql for sql in counts), counts
