"""Every number on a page counts what exists, not what the page has room to show."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from statecore.dashboard.queries import runs
from statecore.delivery.sinks import alert_rules
from statecore.delivery.sinks.alerts import Alerts
from statecore.delivery.sinks.sink import read_batch
from statecore.kernel.clock import now
from statecore.machines.task import FINAL, Task
from statecore.operations.incidents import sweep
from statecore.read_models import board, stuck
from statecore.read_models.board.stuck_counts import cache
from statecore.records import Alert, Incident
from tests.dashboard.scene import Scene, number_all
from tests.support import world
from tests.support.plans import insert_copies


def make_overdue(task: Any) -> Any:
    task.refresh_from_db()
    type(task).objects.filter(pk=task.pk).update(state_entered_at=task.state_entered_at - timedelta(days=2))
    task.refresh_from_db()
    return task


def text_of(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


@pytest.fixture
def viewer(people: dict[str, Any], client: Client) -> Client:
    client.force_login(people["viewer"])
    return client


def test_progress_counts_every_task_of_a_large_run(viewer: Client, scene: Scene) -> None:
    insert_copies(scene.first, 2_000)
    insert_copies(scene.forced, 100)
    tasks = Task.objects.filter(run=scene.run)

    page = viewer.get(reverse("console:run", args=[scene.run.pk]))

    assert page.context["total"] == tasks.count() == 2_103
    assert page.context["ended"] == tasks.filter(state__in=FINAL).count() == 101
    assert "101 of 2103 tasks" in text_of(page)


def test_a_graph_that_is_cut_names_both_numbers(viewer: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    insert_copies(scene.first, 50)
    monkeypatch.setattr(runs, "MAX_PARTS", 40)

    page = viewer.get(reverse("console:run", args=[scene.run.pk]))
    drawn = viewer.get(reverse("console:run_parts", args=[scene.run.pk])).json()

    assert len(drawn["ids"]) == 40
    assert "40 of 54 parts" in text_of(page)


def test_an_explanation_counts_everything_that_is_waited_for(scene: Scene) -> None:
    workstream = scene.first.workstream
    insert_copies(scene.first, 200)
    open_tasks = Task.objects.filter(workstream=workstream).exclude(state="completed")

    found = stuck.explain(type(workstream), workstream.pk).waiting_on[0]

    assert found.others == open_tasks.count() - 1 == 202


def test_an_incident_counts_all_its_entities(viewer: Client, scene: Scene) -> None:
    insert_copies(make_overdue(scene.first), 285)
    sweep()

    page = viewer.get(reverse("console:incident", args=[Incident.objects.get(key="no_worker").pk]))

    assert len(page.context["items"]) == 50
    assert "286 tasks" in text_of(page)


def test_a_worker_that_sends_heartbeats_needs_no_approval(viewer: Client, scene: Scene, settings: Any) -> None:
    settings.STATECORE_RECOVERY = {"uet_worker": "approval"}
    long_ago = now() - timedelta(days=2)
    with time_machine.travel(long_ago, tick=False):
        workers = [world.forced(world.created("UetWorker", worker_type="test"), "DRAINING") for _ in range(3)]
    for worker in workers[1:]:
        world.touched(worker, last_heartbeat=now())

    sweep()
    page = viewer.get(reverse("console:incident", args=[Incident.objects.get(key="late uet_worker.DRAINING").pk]))

    assert [row["item"].kind for row in page.context["items"]] == ["needs approval"]


def test_the_board_counts_all_that_is_overdue(scene: Scene) -> None:
    insert_copies(make_overdue(scene.first), 1_200)
    cache.clear()

    found = board.get_stats()["stuck"]

    assert found["machines"]["task"] == 1_201
    assert found["listed"] == len(stuck.list_stuck(5_000))


def test_the_board_counts_all_that_needs_a_decision(scene: Scene) -> None:
    workstream = world.forced(world.workstream(), "executing")
    insert_copies(workstream, 150)
    for copy in type(workstream).objects.filter(pk__startswith=f"{workstream.pk}-"):
        world.forced(world.task(workstream=copy), "failed")
    cache.clear()

    found = board.get_stats()["stuck"]

    assert found["waiting"]["workstream"] == 151  # with the one of the scene
    assert found["listed"] == len(stuck.list_stuck(1_000))


def test_the_state_chips_count_what_the_search_finds(viewer: Client, scene: Scene) -> None:
    other = world.queued_task()
    number_all()
    page = reverse("console:machine", args=["tasks"])

    def chips(query: str) -> dict[str, int]:
        shown = viewer.get(page, {"q": query}).context["chips"]
        return {share.look.state: share.count for share, *_ in shown if share.count}

    assert chips("run:scene") == {"queued": 1, "blocked": 1, "cancelled": 1}
    assert chips("run:scene state:blocked") == {"queued": 1, "blocked": 1, "cancelled": 1}
    assert chips(other.pk) == {"queued": 1}
    assert chips("")["queued"] == chips("state:queued")["queued"] == 2


def test_a_chip_has_no_number_when_counting_takes_too_long(
    viewer: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statecore.dashboard.queries import counts, time_limit

    def give_up(*_: Any) -> Any:
        raise time_limit.TimedOut

    monkeypatch.setattr(counts, "count_matching", give_up)
    page = viewer.get(reverse("console:machine", args=["tasks"]), {"q": "run:scene"})

    assert page.status_code == 200
    assert {share.count for share, *_ in page.context["chips"]} == {None}


def test_no_alert_calls_a_half_open_breaker_open(viewer: Client, scene: Scene) -> None:
    world.open_breaker("helm")
    breaker = world.model("CircuitBreaker").objects.get(pk="helm")
    breaker = world.forced(breaker, "HALF_OPEN")
    number_all()
    Alerts().deliver(read_batch(0, 10_000))

    alert = Alert.objects.get(rule="breaker_open", key="helm")
    assert alert.resolved_at is None  # going back and forth is one alert
    assert "is open" not in alert.detail
    assert "half-open" in alert.detail
    assert board.get_stats()["counts"]["circuit_breaker"]["OPEN"] == 0

    world.forced(breaker, "OPEN")
    before = read_batch(0, 10_000)
    number_all()
    Alerts().deliver(read_batch(len(before), 10_000))
    assert "is open" in Alert.objects.get(rule="breaker_open", key="helm").detail


def test_a_resolved_alert_names_what_it_was_opened_for(scene: Scene) -> None:
    world.open_breaker("helm")
    breaker = world.model("CircuitBreaker").objects.get(pk="helm")
    world.forced(world.forced(breaker, "HALF_OPEN"), "CLOSED")
    number_all()
    Alerts().deliver(read_batch(0, 10_000))

    alert = Alert.objects.get(rule="breaker_open", key="helm")
    assert alert.resolved_at is not None
    assert "is open" in alert.detail


def test_every_state_of_an_entry_rule_has_a_sentence_or_ends_the_alert() -> None:
    for rule in alert_rules.ENTRY_RULES:
        left = set(rule.flow.states) - {rule.state} - set(rule.ends_in) - set(rule.still_open)
        assert rule.minutes or not left, rule.name


def test_a_stuck_alert_counts_beyond_the_ids_it_lists(scene: Scene) -> None:
    insert_copies(make_overdue(scene.first), 40)

    found = next(each for each in alert_rules.find_stuck(now() + timedelta(days=1)) if each.key == "task.queued")

    assert found.facts["count"] == 41
    assert found.detail.startswith("41 ")
    assert len(found.facts["ids"]) == alert_rules.MAX_STUCK_IDS


def test_the_alerts_page_counts_all_open_alerts_and_lists_the_severest(viewer: Client, scene: Scene) -> None:
    at = now()
    Alert.objects.create(rule="r", key="old", severity="critical", detail="d", opened_at=at - timedelta(days=9))
    Alert.objects.bulk_create(
        Alert(rule="r", key=str(number), severity="warning", detail="d", opened_at=at) for number in range(250)
    )
    total = Alert.objects.filter(resolved_at=None).count()

    page = viewer.get(reverse("console:alerts"))

    assert page.context["open_count"] == total
    assert len(page.context["open_now"]) == 200
    assert page.context["open_now"][0][0].key == "old"
    assert f"{total} open" in text_of(page)


def test_a_relation_that_is_cut_counts_all_of_it(viewer: Client, scene: Scene) -> None:
    insert_copies(scene.first, 60)
    workstream = scene.first.workstream
    page = viewer.get(reverse("console:entity", args=["workstreams", workstream.pk]), {"tab": "related"})

    tasks = next(relation for relation in page.context["relations"] if relation.name == "Tasks")
    assert (len(tasks.entities), tasks.total) == (25, 63)
    assert "25 of 63" in text_of(page)
    assert f"/machines/tasks/?q=workstream%3A{workstream.pk}" in page.content.decode()


def test_the_share_of_forced_transitions_is_not_a_sample(viewer: Client, scene: Scene) -> None:
    for _ in range(3):
        world.forced(world.queued_task(), "cancelled")
    number_all()

    edges = viewer.get(reverse("console:overrides")).context["edges"]

    shown = {edge[:3]: edge[3:] for edge in edges}
    forced, total, forced_url, total_url = shown["task", "queued", "cancelled"]
    assert (forced, total) == (4, 4)
    for url in (forced_url, total_url):
        assert len(viewer.get(url).context["events"]) == 4


def test_all_matching_is_counted_beyond_what_one_job_may_hold(
    people: dict[str, Any], client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statecore.dashboard.pages import bulk

    monkeypatch.setattr(bulk, "MAX_SELECTED", 10)
    insert_copies(scene.first, 30)
    client.force_login(people["operator"])
    place = reverse("console:matching", args=["tasks"])

    assert client.get(place, {"q": "state:queued"}).content == b"the first 10 of 31"
    assert client.get(place, {"q": "state:blocked"}).content == b"all 1"


def test_the_overrides_of_the_last_hour_are_those_that_the_overview_counts(viewer: Client, scene: Scene) -> None:
    with time_machine.travel(now() - timedelta(hours=3)):
        world.forced(world.queued_task(), "cancelled")
    number_all()
    (figure,) = (each for each, _linked in viewer.get("/").context["figures"] if each.label == "overrides, last hour")

    page = viewer.get(figure.url)

    assert len(page.context["events"]) == figure.value == 1
    assert len(viewer.get(reverse("console:overrides")).context["events"]) == 2
    assert "Show all" in text_of(page)


def test_lists_that_are_cut_show_how_many_there_are(
    people: dict[str, Any], scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statecore.dashboard.pages import alerts, tokens
    from statecore.records.token import make

    monkeypatch.setattr(tokens, "MAX_LISTED", 2)
    monkeypatch.setattr(alerts, "MAX_RESOLVED", 1)
    for number in range(3):
        make(f"token-{number}", people["supervisor"], "read")
    Alert.objects.create(
        rule="r", key="k", severity="warning", detail="d", opened_at=now() - timedelta(hours=1), resolved_at=now()
    )
    client.force_login(people["supervisor"])

    assert "Showing the newest 2 of 3 tokens." in text_of(client.get(reverse("console:tokens")))
    assert "Resolved the latest 1" in text_of(client.get(reverse("console:alerts")))


def test_paired_displays_are_listed_before_unpaired_ones(people: dict[str, Any], scene: Scene, client: Client) -> None:
    from statecore.dashboard.models import Display

    at = now()
    for name, revoked_at in (("b", at), ("c", None), ("a", None)):
        Display.objects.create(
            code=name, secret_hash=name, name=name, requested_at=at, paired_at=at, revoked_at=revoked_at
        )
    client.force_login(people["supervisor"])

    rows = client.get(reverse("console:displays")).context["rows"]

    assert [display.name for display, _offline in rows] == ["a", "c", "b"]
