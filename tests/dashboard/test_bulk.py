"""Bulk actions apply to a locked selection and report a result for each entity."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from statecore.bulk import Request, jobs, resolve
from statecore.machines.task import Task
from tests.dashboard.scene import Scene
from tests.support import world
from tests.transitions.test_bulk_actions import incident_of


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
    assert "1 will change." in one
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
    both, ended_only = chosen(client, ids=["scene", "ended-run"]), chosen(client, ids=["ended-run"])

    page = client.get(both, {"trigger": "run_canceled"})
    assert [title for _query, title, _action in page.context["actions"]] == [
        "Cancel 1 run", "Retry 1 run", "Pause 1 run"
    ]  # fmt: skip
    assert page.context["forcing"] == []  # operators may not override
    assert page.context["label"] == "Cancel 1 run"
    assert [title for _query, title, _action in client.get(ended_only).context["actions"]] == ["Retry 1 run"]
    client.force_login(people["supervisor"])
    page = client.get(chosen(client, ids=["ended-run"]))
    assert page.context["forcing"] == []


def test_the_button_is_disabled_when_the_dry_run_says_that_none_would_change(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    task = world.forced(world.task(), "failed")
    world.fire(task.run, "run_canceled", actor=world.operator())
    address = client.post(reverse("console:select", args=["tasks"]), {"ids": [task.pk]})["Location"]
    page = client.get(address, {"action": "retry"})

    assert page.context["preview"]["would"] == 0
    assert 'class="button primary" disabled>Retry 1 task</button>' in page.content.decode()


def test_forcing_needs_a_reason_and_shows_what_follows(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["supervisor"])
    address = client.post(reverse("console:select", args=["tasks"]), {"ids": ["scene-t1", "scene-t2"]})["Location"]
    force = {"action": "override", "to_state": "failed"}
    page = client.get(address, force)
    assert "Force 2 tasks to failed" in page.content.decode()

    assert client.post(address, {**force, "reason": "short", "category": "other"}).status_code == 422
    job = client.post(address, {**force, "reason": "seen to be wrong by hand", "category": "other"})["Location"]
    assert client.get(job).context["job"].changed == 2
    assert "Force 2 tasks to failed" in client.get(reverse("console:bulk_jobs")).content.decode()


def test_the_entities_of_an_incident_are_selected(people: dict[str, Any], scene: Scene, client: Client) -> None:
    incident = incident_of("scene-t1", "scene-t2")
    client.force_login(people["operator"])
    page = client.get(reverse("console:incident", args=[incident.pk])).content.decode()
    assert "Change 2 tasks…" in page
    select = reverse("console:select", args=["tasks"])
    page = client.get(client.post(select, {"incident": str(incident.pk)})["Location"])
    assert page.context["selection"].ids == ["scene-t1", "scene-t2"]
    assert "Acknowledge 2 tasks" in page.content.decode()
    assert client.post(select, {"incident": "x"})["Location"] == "/machines/tasks/"


def test_a_job_is_stopped_by_those_who_may_operate(people: dict[str, Any], scene: Scene, client: Client) -> None:
    retry = resolve(Task.flow, Request(action="retry"))
    job = jobs.begin(retry, ["scene-t3"], actor=world.operator(), user=people["operator"], token=None)
    stop = reverse("console:stop_bulk_job", args=[job.pk])
    client.force_login(people["viewer"])
    assert client.post(stop).status_code == 403
    client.force_login(people["operator"])
    page = client.get(client.post(stop)["Location"])

    assert "stopped by operator" in page.content.decode()
    assert page.context["job"].done == 0
