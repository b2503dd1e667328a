"""Permissions for pages and changes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.dashboard.urls import urlpatterns
from tests.dashboard.addresses import MAY, NOT_PAGES, PAGES, Page, address
from tests.dashboard.scene import Scene

pytestmark = pytest.mark.once_on("sqlite")


def test_every_listed_route_of_the_console_exists() -> None:
    assert {page.name for page in PAGES} | NOT_PAGES == {pattern.name for pattern in urlpatterns}


@pytest.mark.parametrize("place", PAGES, ids=lambda page: page.name)
def test_a_page_opens_only_with_its_permission(place: Page, people: dict[str, Any], scene: Scene) -> None:
    url = address(place, scene)
    for name, user in people.items():
        client = Client()
        client.force_login(user)
        expected = 200 if place.takes in MAY[name] else 403
        hint = (
            f"{url} must {'open for' if expected == 200 else 'refuse'} {name}: add a permission to its view, "
            "or list the page with what it takes in tests/dashboard/addresses.py"
        )
        assert client.get(url).status_code == expected, hint
    stranger = Client().get(url)
    assert (stranger.status_code, stranger["Location"]) == (302, f"/login/?next={url}")


@pytest.mark.parametrize("may", [[], ["view_event"], ["view_alert"], ["view_task"], ["view_task", "view_event"]])
def test_the_navigation_links_only_permitted_pages(
    may: list[str], people: dict[str, Any], scene: Scene, client: Client
) -> None:
    from django.contrib.auth.models import Permission

    people["nobody"].user_permissions.set(Permission.objects.filter(codename__in=may))
    client.force_login(people["nobody"])
    places = re.findall(r'<a href="([^"]+)" data-nav', client.get(reverse("console:tokens")).content.decode())

    assert reverse("console:overview") in places
    assert {place: client.get(place).status_code for place in places} == dict.fromkeys(places, 200)


@pytest.mark.parametrize("may", [[], ["view_event"], ["view_alert"], ["view_task"], ["view_task", "view_event"]])
def test_key_figures_link_only_permitted_pages(
    may: list[str], people: dict[str, Any], scene: Scene, client: Client
) -> None:
    from django.contrib.auth.models import Permission

    people["nobody"].user_permissions.set(Permission.objects.filter(codename__in=may))
    client.force_login(people["nobody"])
    places = re.findall(r'<a href="([^"]+)" class="figure', client.get("/").content.decode())

    assert (reverse("console:incidents") in places) == ("view_task" in may)
    assert {place: client.get(place).status_code for place in places} == dict.fromkeys(places, 200)


def test_a_user_without_access_is_referred_to_an_administrator(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["nobody"])
    body = client.get("/").content.decode()

    assert "You have no access yet" in body
    assert "overview.js" not in body


def test_the_figures_lead_a_viewer_to_every_page(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])
    places = re.findall(r'<a href="(/\w+/(?:\?[^"]*)?)" class="figure', client.get("/").content.decode())

    assert places == ["/incidents/", "/alerts/", "/overrides/?last=hour"]


def test_the_navigation_of_a_viewer_has_every_page(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])
    body = client.get(reverse("console:tokens")).content.decode()

    assert re.findall(r'data-nav="(\w+)"', body) == [
        *("overview", "incidents", "alerts", "approvals", "holds", "schedules", "bulk_jobs", "overrides", "audit"),
        *("displays", "tokens", "start"),
    ]


CHANGES = [
    ("transition", ("runs", "scene", "run_canceled"), {}, "operate"),
    ("retry", ("tasks", "scene-t1"), {}, "operate"),
    ("approve", ("tasks", "scene-t1"), {}, "operate"),
    ("incident_action", (1,), {"action": "acknowledge"}, "operate"),
    (
        "force",
        ("tasks", "scene-t1"),
        {"to": "blocked", "reason": "long enough a reason", "category": "other"},
        "override",
    ),
]


@pytest.mark.parametrize(("name", "args", "body", "takes"), CHANGES, ids=[change[0] for change in CHANGES])
def test_changes_require_their_permission(
    name: str, args: Any, body: dict[str, str], takes: str, people: dict[str, Any], scene: Scene
) -> None:
    for person in (person for person, rights in MAY.items() if takes not in rights):
        client = Client()
        client.force_login(people[person])
        assert client.post(reverse(f"console:{name}", args=args), body).status_code == 403
    scene.run.refresh_from_db()
    scene.first.refresh_from_db()
    assert (scene.run.state, scene.first.state) == ("running", "queued")


def test_acknowledging_an_alert_requires_the_permission(people: dict[str, Any], scene: Scene, client: Client) -> None:
    url = reverse("console:acknowledge", args=[scene.alert.pk])
    client.force_login(people["viewer"])
    assert client.post(url).status_code == 403

    client.force_login(people["operator"])
    client.post(url)

    scene.alert.refresh_from_db()
    assert scene.alert.acknowledged_by == "operator"


def test_tokens_of_other_users_are_hidden_and_cannot_be_revoked(people: dict[str, Any], client: Client) -> None:
    from statecore.records import Token
    from statecore.records.token import make

    token, _text = make("theirs", people["supervisor"], "read")
    client.force_login(people["operator"])

    assert b"theirs" not in client.get(reverse("console:tokens")).content
    assert client.post(reverse("console:revoke", args=[token.prefix])).status_code == 403
    assert Token.objects.get(pk=token.pk).revoked_at is None


@pytest.mark.parametrize(
    ("person", "scopes"),
    [
        ("nobody", []),
        ("viewer", ["read"]),
        ("operator", ["read", "agent", "operate"]),
        ("supervisor", ["read", "agent", "operate", "override"]),
    ],
)
def test_a_token_is_for_no_more_than_its_user_may_do(
    person: str, scopes: list[str], people: dict[str, Any], client: Client
) -> None:
    from statecore.records import Token

    client.force_login(people[person])
    for scope in ("read", "agent", "operate", "override"):
        answer = client.post(reverse("console:tokens"), {"name": f"{person} {scope}", "scope": scope})
        assert answer.status_code == (200 if scope in scopes else 403), scope
    assert sorted(Token.objects.filter(user=people[person]).values_list("scope", flat=True)) == sorted(scopes)


def test_a_user_who_may_see_no_machine_sees_no_events(people: dict[str, Any], scene: Scene, client: Client) -> None:
    from django.contrib.auth.models import Permission

    people["nobody"].user_permissions.add(Permission.objects.get(codename="view_event"))
    client.force_login(people["nobody"])
    for name in ("audit", "audit_export", "overrides"):
        assert client.get(reverse(f"console:{name}")).status_code == 403, name


def test_a_read_only_console_shows_pages_and_refuses_changes(
    people: dict[str, Any], scene: Scene, client: Client, settings: Any
) -> None:
    settings.STATECORE_READ_ONLY = True
    client.force_login(people["superuser"])

    assert b"Read-only" in client.get(reverse("console:entity", args=["tasks", "scene-t1"])).content
    for name, args, body, _takes in CHANGES:
        assert client.post(reverse(f"console:{name}", args=args), body).status_code == 403
    assert client.post(reverse("console:acknowledge", args=[scene.alert.pk])).status_code == 403
    assert client.post(reverse("console:tokens"), {"name": "x", "scope": "read"}).status_code == 403


def test_an_upgrade_grants_each_new_default_permission_once(people: dict[str, Any]) -> None:
    from django.contrib.auth.models import Group, Permission

    from statecore.dashboard import groups
    from statecore.records import DefaultGrant

    operator, viewer = Group.objects.get(name="operator"), Group.objects.get(name="viewer")
    for group in Group.objects.all():
        group.permissions.remove(*Permission.objects.filter(codename__in=("operate_run", "add_phase")))
    # As before the version that declared it.
    DefaultGrant.objects.filter(codename="add_phase").delete()
    groups.create_groups()

    assert operator.permissions.filter(codename="add_phase").exists()
    assert not operator.permissions.filter(codename="operate_run").exists()
    assert not viewer.permissions.filter(codename="add_phase").exists()

    operator.permissions.remove(Permission.objects.get(codename="add_phase"))
    groups.create_groups()
    assert not operator.permissions.filter(codename="add_phase").exists()


def test_groups_of_versions_without_a_record_gain_what_no_group_has(people: dict[str, Any]) -> None:
    from django.contrib.auth.models import Group, Permission

    from statecore.dashboard import groups
    from statecore.records import DefaultGrant

    operator = Group.objects.get(name="operator")
    operator.permissions.remove(Permission.objects.get(codename="operate_run"))
    for group in Group.objects.all():
        group.permissions.remove(*Permission.objects.filter(codename="change_phase"))
    DefaultGrant.objects.all().delete()
    groups.create_groups()

    assert operator.permissions.filter(codename="change_phase").exists()
    assert not operator.permissions.filter(codename="operate_run").exists()
    assert not operator.permissions.filter(codename__startswith="override_").exists()


@pytest.mark.parametrize("name", ["machine", "entity", "why"])
def test_a_fragment_and_its_page_are_cached_apart(
    name: str, people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["viewer"])
    url = reverse(f"console:{name}", args=["tasks"] if name == "machine" else ["tasks", "scene-t1"])
    part, page = client.get(url, headers={"HX-Request": "true"}), client.get(url)

    assert "HX-Request" in part["Vary"]
    assert "HX-Request" in page["Vary"]
    assert part["Cache-Control"] == "no-store"
    assert "no-store" not in page.get("Cache-Control", "")


def test_a_fragment_is_not_the_login_page_when_the_session_has_expired(scene: Scene, client: Client) -> None:
    url = reverse("console:machine", args=["tasks"])
    part = client.get(url, headers={"HX-Request": "true"})

    assert (part.status_code, part.content) == (403, b"Your session has expired. Log in again.\n")
    back = client.get(url, headers={"HX-Request": "true", "HX-History-Restore-Request": "true"})
    assert back["Location"] == f"/login/?next={url}"


@pytest.fixture
def sees_runs(people: dict[str, Any], client: Client) -> Client:
    """A client whose user may see and force runs, and no other machine."""
    from django.contrib.auth.models import Permission

    may = Permission.objects.filter(codename__in=["view_run", "operate_run", "override_run", "view_event"])
    people["nobody"].user_permissions.add(*may)
    client.force_login(people["nobody"])
    return client


@pytest.mark.parametrize("name", ["run", "run_journal"])
def test_a_replay_requires_access_to_the_parts_of_the_run(name: str, sees_runs: Client, scene: Scene) -> None:
    assert sees_runs.get(reverse(f"console:{name}", args=["scene"])).status_code == 403
    page = sees_runs.get(reverse("console:entity", args=["runs", "scene"]))
    assert page.status_code == 200
    assert "Graph and replay" not in page.content.decode()


def test_no_page_of_a_run_shows_hidden_machines(sees_runs: Client, scene: Scene) -> None:
    force = reverse("console:force", args=["runs", "scene"])
    related = sees_runs.get(reverse("console:entity", args=["runs", "scene"]), {"tab": "related"})
    preview = sees_runs.get(force, {"to": "canceled"})
    body = {"to": "canceled", "reason": "long enough a reason", "category": "other"}
    receipt = sees_runs.get(sees_runs.post(force, body)["Location"])

    for page in (related, preview, receipt):
        assert page.status_code == 200
        assert "scene-t1" not in page.content.decode()
        assert "scene-w" not in page.content.decode()
    for page in (preview, receipt):
        assert "Entities that you may not see" in page.content.decode()
        assert "Nothing else" not in page.content.decode()


def test_a_user_who_may_see_the_parts_is_shown_them(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["supervisor"])
    related = client.get(reverse("console:entity", args=["runs", "scene"]), {"tab": "related"})
    preview = client.get(reverse("console:force", args=["runs", "scene"]), {"to": "canceled"})

    assert "scene-w" in related.content.decode()
    assert "scene-t1" in preview.content.decode()
    assert "data-unseen" not in preview.content.decode()
