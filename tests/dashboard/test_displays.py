"""Displays are paired with a short-lived code, see the wall and nothing else, and can be unpaired."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from statecore.kernel import registry
from tests.dashboard.addresses import PAGES, address
from tests.dashboard.scene import Scene


def request_code(client: Client) -> str:
    client.get(reverse("console:pairing"))
    from statecore.dashboard.models import Display

    return str(Display.objects.latest("pk").code)


def pair(people: dict[str, Any], code: str, who: str = "supervisor") -> int:
    console = Client()
    console.force_login(people[who])
    return console.post(reverse("console:displays"), {"code": code, "name": "Hall", "machines": "run"}).status_code


def test_a_display_shows_the_wall_once_its_code_was_entered(people: dict[str, Any], scene: Scene) -> None:
    wall = Client()
    code = request_code(wall)
    assert wall.post(reverse("console:paired")).json() == {"state": "waiting"}
    assert wall.get(reverse("console:wall")).status_code == 302

    pair(people, f" {code.lower()} ")

    assert wall.post(reverse("console:paired")).json() == {"state": "paired", "address": "/wall/?machines=run"}
    assert wall.get("/wall/?machines=run").status_code == 200
    assert wall.post(reverse("console:wall_heartbeat")).status_code == 200


@pytest.fixture
def wall(people: dict[str, Any], scene: Scene) -> Client:
    """The browser of a paired display."""
    client = Client()
    pair(people, request_code(client))
    assert client.post(reverse("console:paired")).json()["state"] == "paired"
    return client


def test_a_display_opens_no_page_of_the_console(wall: Client, scene: Scene) -> None:
    opened = {page.name for page in PAGES if wall.get(address(page, scene)).status_code != 403}

    assert opened == {"wall"}


def test_a_display_opens_no_other_route_of_the_site(wall: Client) -> None:
    from statecore.api.urls import urlpatterns

    assert len(urlpatterns) > 10
    calls = ["/api/v1/tasks/", "/api/v1/runs/scene/", "/api/v1/events/", "/api/v1/board/", "/api/v1/stats/"]
    for path in (*calls, "/api/v1/docs/", "/api/v1/schema/", "/admin/", "/metrics", "/login/"):
        assert wall.get(path).status_code == 403, path
    refused = wall.get("/api/v1/tasks/", headers={"Accept": "application/json"})
    assert "wall and nothing else" in refused.content.decode()


def test_a_display_may_see_machines_for_the_board_and_no_events(wall: Client) -> None:
    from statecore.dashboard.models import Display

    user = Display.objects.latest("pk").user
    assert user is not None
    assert user.get_all_permissions() == {flow.permission("view") for flow in registry.flows()}
    assert [group.name for group in user.groups.all()] == ["display"]


def test_pages_of_other_users_run_no_query_for_displays(people: dict[str, Any], scene: Scene) -> None:
    client, viewer = Client(), people["viewer"]
    viewer.set_password("a password")
    viewer.save()
    client.force_login(viewer)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(reverse("console:tokens")).status_code == 200

    assert not [query for query in queries if "dashboard_display" in query["sql"]]


def test_a_migration_renames_the_accounts_and_permissions_of_displays(people: dict[str, Any], scene: Scene) -> None:
    from django.contrib.auth.models import Group, Permission

    from statecore.dashboard.models import Display

    migration = import_module("statecore.dashboard.migrations.0004_display")
    pair(people, request_code(Client()))
    display = Display.objects.latest("pk")
    assert display.user is not None
    display.user.groups.set([Group.objects.get(name="viewer")])
    type(display.user).objects.update_or_create(pk=display.user.pk, defaults={"username": f"screen-{display.pk}"})
    Group.objects.get(name="display").delete()
    editor = SimpleNamespace(connection=connection)

    migration.restore_permissions(apps, editor)
    assert not Permission.objects.filter(codename="view_display").exists()
    migration.rename_permissions(apps, editor)
    migration.rename_accounts(apps, editor)

    display = Display.objects.get(pk=display.pk)
    assert display.user is not None
    assert display.user.username == f"display-{display.pk}"
    shown = {
        "statecore.view_hold",
        "statecore.view_incident",
        "statecore.view_plantemplate",
        "statecore.view_schedule",
        *(flow.permission("view") for flow in registry.flows()),
    }
    assert display.user.get_all_permissions() == shown
    assert Permission.objects.get(codename="view_display").name == "Can view display"


def test_a_code_pairs_one_display_within_15_minutes(people: dict[str, Any], scene: Scene) -> None:
    from statecore.dashboard.models import Display

    wall = Client()
    code = request_code(wall)
    Display.objects.update(requested_at=Display.objects.get(code=code).requested_at - timedelta(minutes=16))
    pair(people, code)
    assert Display.objects.get(code=code).paired_at is None
    assert wall.post(reverse("console:paired")).status_code == 410

    fresh = request_code(wall)
    pair(people, fresh)
    first = Display.objects.get(code=fresh).paired_at
    pair(people, fresh)
    assert Display.objects.get(code=fresh).paired_at == first


def test_pairing_and_unpairing_require_permissions(people: dict[str, Any], scene: Scene) -> None:
    from statecore.dashboard.models import Display

    code = request_code(Client())
    assert pair(people, code, "operator") == 403
    pair(people, code)
    display = Display.objects.get(code=code)
    operator = Client()
    operator.force_login(people["operator"])
    assert operator.post(reverse("console:unpair", args=[display.pk])).status_code == 403


def test_an_unpaired_display_loses_access(people: dict[str, Any], scene: Scene) -> None:
    from statecore.dashboard import displays
    from statecore.dashboard.models import Display

    wall = Client()
    code = request_code(wall)
    pair(people, code)
    wall.post(reverse("console:paired"))
    displays.unpair(Display.objects.get(code=code))

    assert wall.get(reverse("console:wall")).status_code == 302
    assert wall.post(reverse("console:paired")).status_code == 410


def test_a_display_without_contact_is_offline(people: dict[str, Any], scene: Scene) -> None:
    from statecore.dashboard import displays
    from statecore.dashboard.models import Display
    from statecore.kernel.clock import now

    assert displays.is_offline(Display())
    assert displays.is_offline(Display(last_seen_at=now() - timedelta(minutes=3)))
    assert not displays.is_offline(Display(last_seen_at=now()))


def test_an_unknown_secret_matches_no_display(scene: Scene) -> None:
    client = Client()
    client.cookies["statecore_display"] = "guessed"

    assert client.post(reverse("console:paired")).status_code == 410


def request_from(place: str) -> Client:
    client = Client(REMOTE_ADDR=place)
    assert client.get(reverse("console:pairing")).status_code == 200
    return client


def waits(client: Client) -> bool:
    return client.post(reverse("console:paired")).status_code == 200


def test_many_requests_from_one_address_displace_only_each_other(people: dict[str, Any], scene: Scene) -> None:
    from statecore.dashboard import displays

    honest = request_from("192.0.2.7")
    greedy = [request_from("198.51.100.9") for _ in range(displays.MAX_WAITING + 5)]

    assert waits(honest)
    kept = displays.MAX_WAITING_PER_ADDRESS
    assert [waits(client) for client in greedy[-kept:]] == [True] * kept
    assert not waits(greedy[0])


def test_of_too_many_addresses_the_oldest_request_gives_way(scene: Scene) -> None:
    from statecore.dashboard import displays
    from statecore.dashboard.models import Display

    asked = [request_from(f"192.0.2.{number}") for number in range(1, displays.MAX_WAITING + 2)]

    assert Display.objects.filter(paired_at=None).count() == displays.MAX_WAITING
    assert (waits(asked[0]), waits(asked[-1])) == (False, True)


def test_an_abandoned_code_is_deleted(scene: Scene) -> None:
    from statecore.dashboard.models import Display
    from statecore.kernel.clock import now

    shown, gone = request_from("192.0.2.7"), request_from("192.0.2.8")
    assert waits(shown)
    Display.objects.update(requested_at=now() - timedelta(minutes=2))
    request_from("192.0.2.9")

    assert (waits(shown), waits(gone)) == (True, False)


def test_null_characters_in_a_code_pair_nothing(people: dict[str, Any], scene: Scene) -> None:
    from statecore.dashboard.models import Display

    code = request_code(Client())
    console = Client()
    console.force_login(people["supervisor"])
    assert console.post(reverse("console:displays"), {"code": "a\0b"}).status_code == 302
    assert Display.objects.get(code=code).paired_at is None
    assert console.post(reverse("console:displays"), {"code": code, "machines": "é" * 200}).status_code == 302
    assert Display.objects.get(code=code).address == reverse("console:wall")


@pytest.mark.parametrize(
    ("machines", "sizes"),
    [("run", [1]), ("run,task", [2]), (",".join(["run"] * 7), [4, 3])],
)
def test_tiles_are_spread_evenly_over_the_pages_of_a_wall(
    machines: str, sizes: list[int], people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["viewer"])
    pages = client.get(reverse("console:wall"), {"machines": machines}).context["pages"]

    assert [len(page) for page in pages] == sizes


def test_a_wall_without_a_choice_spreads_all_machines_over_its_pages(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["viewer"])
    sizes = [len(page) for page in client.get(reverse("console:wall")).context["pages"]]

    assert sum(sizes) == len(registry.flows())
    assert max(sizes) - min(sizes) <= 1


def test_the_wall_shows_the_number_of_critical_alerts(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])

    def figures() -> dict[str, int]:
        shown = client.get(reverse("console:wall")).context["figures"]
        return {figure.label: figure.value for figure in shown}

    assert figures()["critical alerts"] == 0
    scene.alert.severity = "critical"
    scene.alert.save()
    assert figures()["critical alerts"] == 1
