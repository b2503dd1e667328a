"""One move for many: who is chosen is frozen, and each has its result."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from tests.dashboard.scene import Scene
from tests.support import world


def chosen(client: Client, **words: Any) -> str:
    return str(client.post(reverse("console:select", args=["runs"]), words)["Location"])


def test_a_choice_is_moved_and_each_has_its_result(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    other, ended = world.run(id="bulk-1"), world.run(id="bulk-2")
    world.fire(ended, "run_canceled", actor=world.operator())
    address = chosen(client, ids=[other.pk, ended.pk])

    job = client.post(address, {"trigger": "run_canceled", "reason": "all of them"})["Location"]

    context = client.get(job).context
    assert (context["job"].done, context["job"].refused) == (2, 1)
    assert [told["id"] for told in context["results"]] == ["bulk-2", "bulk-1"]
    other.refresh_from_db()
    assert other.state == "canceled"
    assert client.get(address)["Location"] == job  # what was sent once is not sent again


def test_all_that_match_is_what_matched_then(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    world.run(id="match-1")
    address = chosen(client, all="1", q="match-")
    world.run(id="match-2")

    assert client.get(address).context["selection"].ids == ["match-1"]


def test_somebody_elses_choice_is_not_found(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    address = chosen(client, ids=["scene"])
    client.force_login(people["supervisor"])

    assert client.get(address).status_code == 404


def test_who_may_not_operate_may_not_choose(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])

    assert client.post(reverse("console:select", args=["runs"]), {"ids": ["scene"]}).status_code == 403


def test_nothing_chosen_leads_back(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])

    assert chosen(client) == chosen(client, ids=["\x00"]) == "/machines/runs/"
    for query in ("run:nothing", "colour:red"):
        back = chosen(client, all="1", q=query)
        page = client.get(back)
        assert page.context["q"] == query
        assert "Nothing was chosen" in page.content.decode()


def test_all_that_match_is_not_offered_where_a_word_was_not_understood(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    offer = b'name="all"'

    assert offer in client.get("/machines/runs/?q=state:running").content
    assert offer not in client.get("/machines/runs/?q=state:running+colour:red").content


def test_one_is_spoken_of_as_one_and_two_by_their_plural(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    one = client.get(f"{chosen(client, ids=['scene'])}?trigger=run_canceled").content.decode()
    assert "Move 1 run<" in one
    assert "this one and no other," in one
    assert "Tried and rolled back: 1 would move." in one

    patches = [world.patch(id=f"plural-{number}").pk for number in range(2)]
    address = client.post(reverse("console:select", args=["patches"]), {"ids": patches})["Location"]
    assert "Move 2 patches<" in client.get(address).content.decode()


def test_all_that_match_have_their_number_before_they_are_chosen(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    for number in range(3):
        world.run(id=f"count-{number}")
    url = reverse("console:matching", args=["runs"])

    assert client.get(url, {"q": "count-"}).content == b"all 3"
    assert client.get(url, {"q": "nonsense:x"}).content == b"all 0"
