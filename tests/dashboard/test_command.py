"""The command bar finds entities, actions, searches, pages, actors and saved views, within the account's rights."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from statecore import transitions
from statecore.dashboard.models import SavedView
from statecore.dashboard.queries import lookup
from statecore.kernel import registry
from statecore.machines.task import Task
from tests.dashboard.scene import Scene, last_forced
from tests.support import world


def find(client: Client, text: str, **more: str) -> dict[str, list[str]]:
    """The titles of the options, by group."""
    answer = client.get(reverse("console:command"), {"q": text, **more}, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    return {group.title: [option.title for option in group.options] for group in answer.context["groups"]}


def test_ids_lead_to_entities_of_every_machine_and_to_their_actions(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    found = find(client, "scene")
    assert {"scene", "scene-w", "scene-t1", "scene-t2", "scene-t3"} == set(found["Entities"])
    assert found["Entities"][0] == "scene"
    assert found["Actions"][:2] == ["Cancel run scene", "Pause run scene"]

    assert list(find(client, "cancel scene")) == ["Actions", "Entities"]
    assert find(client, "scene-t3")["Actions"] == ["Retry task scene-t3"]
    assert find(client, last_forced())["Events"] == [last_forced()]
    client.force_login(people["viewer"])
    assert find(client, "scene-t3") == {"Entities": ["scene-t3"]}


def test_an_account_finds_only_what_it_may_see(people: dict[str, Any], scene: Scene, client: Client) -> None:
    only_tasks = User.objects.create_user("only-tasks")
    only_tasks.user_permissions.set(Permission.objects.filter(codename="view_task"))
    client.force_login(only_tasks)
    assert set(find(client, "scene")["Entities"]) == {"scene-t1", "scene-t2", "scene-t3"}
    assert "Actors" not in find(client, "oper")
    assert find(client, last_forced()) == {} or "Events" in find(client, last_forced())
    client.force_login(people["nobody"])
    assert find(client, "scene") == {}
    assert "Audit" not in find(client, "")["Pages"]


def test_metadata_and_qualifiers_are_searched(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])
    metadata = {"team": "core", "size": 3, "on": {"call": "ada"}}
    transitions.edit(Task, "scene-t1", {"metadata": metadata}, actor=world.operator())

    for words in ("meta.team:core", "meta.size:3", "meta.on.call:ada", "meta.team:core state:queued"):
        assert find(client, words)["Matches"] == ["scene-t1"]
        assert client.get("/machines/tasks/", {"q": words}).context["page"].rows[0].entity.pk == "scene-t1"
    assert "Matches" not in find(client, "meta.team:shell")
    searches = find(client, "state:queued run:scene", here="workstream")["Searches"]
    assert "Search tasks: state:queued run:scene" in searches
    assert find(client, "tasks run:scene")["Searches"] == ["Search tasks: run:scene"]
    assert find(client, "nonsense:x") == {}
    assert client.get("/machines/tasks/", {"q": "meta.:x"}).context["search"].errors


def test_pages_views_and_actors_are_found(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    SavedView.objects.create(owner=people["operator"], name="Red mornings", entity_type="task", query="state:failed")
    SavedView.objects.create(owner=people["viewer"], name="Red evenings", entity_type="task", query="state:failed")
    assert find(client, "hol")["Pages"] == ["Holds"]
    assert find(client, "red")["Saved views"] == ["Red mornings"]
    assert find(client, "superv")["Actors"] == ["supervisor"]
    assert client.get(reverse("console:command"), {"q": "hol"}).content.decode().count("<html") == 1


def test_a_run_is_found_from_the_list_of_another_machine(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])
    page = client.get("/machines/tasks/", {"q": "scene"})
    assert page.context["page"].rows  # the beginning of ids
    page = client.get("/machines/patches/", {"q": "scene"}).content.decode()
    assert 'Found elsewhere: run <a class="id" href="/machines/runs/scene/">scene</a>' in page


def test_a_lookup_is_one_statement(scene: Scene, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        assert [found.entity_id for found in lookup.find_by_ids(registry.flows(), ["scene", "a%b", "x_y"])] == ["scene"]
    assert lookup.find_by_prefix(registry.flows(), "scene_t", 5) == []  # an underscore is no wildcard
    assert lookup.find_by_prefix([Task.flow], "scene-", 2) is not None
