"""Bulk actions apply to a locked selection and report a result for each entity."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from tests.dashboard.scene import Scene
from tests.support import world


def chosen(client: Client, **words: Any) -> str:
    return str(client.post(reverse("console:select", args=["runs"]), words)["Location"])


def test_a_selection_is_changed_with_a_result_for_each_entity(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    other, ended = world.run(id="bulk-1"), world.run(id="bulk-2")
    world.fire(ended, "run_canceled", actor=world.operator())
    address = chosen(client, ids=[other.pk, ended.pk])

    job = client.post(address, {"trigger": "run_canceled", "reason": "all of them"})["Location"]

    context = client.get(job).context
    assert (context["job"].done, context["job"].refused) == (2, 1)
    assert [result["id"] for result in context["results"]] == ["bulk-2", "bulk-1"]
    other.refresh_from_db()
    assert other.state == "canceled"
    assert client.get(address)["Location"] == job  # a second submission leads to the same job


def test_a_selection_of_all_matches_does_not_grow(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    world.run(id="match-1")
    address = chosen(client, all="1", q="match-")
    world.run(id="match-2")

    assert client.get(address).context["selection"].ids == ["match-1"]


def test_another_users_selection_is_not_found(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    address = chosen(client, ids=["scene"])
    client.force_login(people["supervisor"])

    assert client.get(address).status_code == 404


def test_selecting_requires_the_operate_permission(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])

    assert client.post(reverse("console:select", args=["runs"]), {"ids": ["scene"]}).status_code == 403


def test_an_empty_selection_redirects_to_the_list(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])

    assert chosen(client) == chosen(client, ids=["\x00"]) == "/machines/runs/"
    for query in ("run:nothing", "colour:red"):
        back = chosen(client, all="1", q=query)
        page = client.get(back)
        assert page.context["q"] == query
        assert "Nothing was selected" in page.content.decode()


def test_selecting_all_matches_is_not_offered_for_an_invalid_search(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    offer = b'name="all"'

    assert offer in client.get("/machines/runs/?q=state:running").content
    assert offer not in client.get("/machines/runs/?q=state:running+colour:red").content


def test_counts_use_singular_and_plural(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    one = client.get(f"{chosen(client, ids=['scene'])}?trigger=run_canceled").content.decode()
    assert "Change 1 run<" in one
    assert "Selection locked: 1 run," in one
    assert "Dry run: 1 will change." in one
    assert ">Cancel 1 run</button>" in one

    patches = [world.patch(id=f"plural-{number}").pk for number in range(2)]
    address = client.post(reverse("console:select", args=["patches"]), {"ids": patches})["Location"]
    assert "Change 2 patches<" in client.get(address).content.decode()


def test_the_number_of_matches_is_shown_before_selecting(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    for number in range(3):
        world.run(id=f"count-{number}")
    url = reverse("console:matching", args=["runs"])

    assert client.get(url, {"q": "count-"}).content == b"all 3"
    assert client.get(url, {"q": "nonsense:x"}).content == b"all 0"


def test_only_actions_that_apply_to_the_selection_are_offered(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    ended = world.run(id="ended-run")
    world.fire(ended, "run_canceled", actor=world.operator())
    both, none = chosen(client, ids=["scene", "ended-run"]), chosen(client, ids=["ended-run"])

    page = client.get(both, {"trigger": "run_canceled"})
    assert page.context["triggers"] == [("run_canceled", "Cancel 1 run")]
    assert page.context["label"] == "Cancel 1 run"
    page = client.get(none)
    assert page.context["triggers"] == []
    assert "No action applies to these runs" in page.content.decode()
