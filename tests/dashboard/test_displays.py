"""Displays are paired with a short-lived code, are read-only, and can be unpaired."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.kernel import registry
from tests.dashboard.scene import Scene


def asking(client: Client) -> str:
    client.get(reverse("console:pairing"))
    from dashboard.models import Screen

    return str(Screen.objects.latest("pk").code)


def let_in(people: dict[str, Any], code: str, who: str = "supervisor") -> int:
    console = Client()
    console.force_login(people[who])
    return console.post(reverse("console:screens"), {"code": code, "name": "Hall", "machines": "run"}).status_code


def test_a_screen_comes_in_once_its_code_was_typed_and_may_only_look(people: dict[str, Any], scene: Scene) -> None:
    wall = Client()
    code = asking(wall)
    assert wall.post(reverse("console:paired")).json() == {"state": "waiting"}
    assert wall.get(reverse("console:wall")).status_code == 302

    let_in(people, f" {code.lower()} ")

    assert wall.post(reverse("console:paired")).json() == {"state": "paired", "address": "/wall/?machines=run"}
    assert wall.get("/wall/?machines=run").status_code == 200
    assert wall.post(reverse("console:wall_heartbeat")).status_code == 200
    assert wall.get(reverse("console:force", args=["tasks", "scene-t1"])).status_code == 403
    assert wall.get(reverse("console:transition", args=["runs", "scene", "run_canceled"])).status_code == 403


def test_a_code_pairs_one_display_within_15_minutes(people: dict[str, Any], scene: Scene) -> None:
    from dashboard.models import Screen

    wall = Client()
    code = asking(wall)
    Screen.objects.update(asked_at=Screen.objects.get(code=code).asked_at - timedelta(minutes=16))
    let_in(people, code)
    assert Screen.objects.get(code=code).paired_at is None
    assert wall.post(reverse("console:paired")).status_code == 410

    fresh = asking(wall)
    let_in(people, fresh)
    first = Screen.objects.get(code=fresh).paired_at
    let_in(people, fresh)
    assert Screen.objects.get(code=fresh).paired_at == first


def test_pairing_and_unpairing_require_permissions(people: dict[str, Any], scene: Scene) -> None:
    from dashboard.models import Screen

    code = asking(Client())
    assert let_in(people, code, "operator") == 403
    let_in(people, code)
    screen = Screen.objects.get(code=code)
    operator = Client()
    operator.force_login(people["operator"])
    assert operator.post(reverse("console:unpair", args=[screen.pk])).status_code == 403


def test_a_screen_that_was_thrown_out_sees_nothing_more(people: dict[str, Any], scene: Scene) -> None:
    from dashboard import displays
    from dashboard.models import Screen

    wall = Client()
    code = asking(wall)
    let_in(people, code)
    wall.post(reverse("console:paired"))
    displays.unpair(Screen.objects.get(code=code))

    assert wall.get(reverse("console:wall")).status_code == 302
    assert wall.post(reverse("console:paired")).status_code == 410


def test_a_display_without_contact_is_offline(people: dict[str, Any], scene: Scene) -> None:
    from dashboard import displays
    from dashboard.models import Screen
    from statecore.kernel.clock import now

    assert displays.is_offline(Screen())
    assert displays.is_offline(Screen(last_seen_at=now() - timedelta(minutes=3)))
    assert not displays.is_offline(Screen(last_seen_at=now()))


def test_an_unknown_secret_matches_no_display(scene: Scene) -> None:
    client = Client()
    client.cookies["statecore_screen"] = "guessed"

    assert client.post(reverse("console:paired")).status_code == 410


def ask_from(place: str) -> Client:
    client = Client(REMOTE_ADDR=place)
    assert client.get(reverse("console:pairing")).status_code == 200
    return client


def waits(client: Client) -> bool:
    return client.post(reverse("console:paired")).status_code == 200


def test_many_requests_from_one_address_displace_only_each_other(people: dict[str, Any], scene: Scene) -> None:
    from dashboard import displays

    honest = ask_from("192.0.2.7")
    greedy = [ask_from("198.51.100.9") for _ in range(displays.MAX_WAITING + 5)]

    assert waits(honest)
    kept = displays.MAX_WAITING_PER_ADDRESS
    assert [waits(client) for client in greedy[-kept:]] == [True] * kept
    assert not waits(greedy[0])


def test_of_too_many_places_the_oldest_gives_way(scene: Scene) -> None:
    from dashboard import displays
    from dashboard.models import Screen

    asked = [ask_from(f"192.0.2.{number}") for number in range(1, displays.MAX_WAITING + 2)]

    assert Screen.objects.filter(paired_at=None).count() == displays.MAX_WAITING
    assert (waits(asked[0]), waits(asked[-1])) == (False, True)


def test_an_abandoned_code_is_deleted(scene: Scene) -> None:
    from dashboard.models import Screen
    from statecore.kernel.clock import now

    shown, gone = ask_from("192.0.2.7"), ask_from("192.0.2.8")
    assert waits(shown)
    Screen.objects.update(asked_at=now() - timedelta(minutes=2))
    ask_from("192.0.2.9")

    assert (waits(shown), waits(gone)) == (True, False)


def test_null_characters_in_a_code_pair_nothing(people: dict[str, Any], scene: Scene) -> None:
    from dashboard.models import Screen

    code = asking(Client())
    console = Client()
    console.force_login(people["supervisor"])
    assert console.post(reverse("console:screens"), {"code": "a\0b"}).status_code == 302
    assert Screen.objects.get(code=code).paired_at is None
    assert console.post(reverse("console:screens"), {"code": code, "machines": "é" * 200}).status_code == 302
    assert Screen.objects.get(code=code).address == reverse("console:wall")


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

    def told() -> dict[str, int]:
        figures = client.get(reverse("console:wall")).context["figures"]
        return {figure.label: figure.value for figure in figures}

    assert told()["critical alerts"] == 0
    scene.alert.severity = "critical"
    scene.alert.save()
    assert told()["critical alerts"] == 1
