"""The number of queries of each page, escaping of user input, lists, exports and the replay."""

from __future__ import annotations

import json
import re
import shlex
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from statecore import transitions
from statecore.dashboard.queries import entities, history, runs
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.task import Task
from statecore.read_models.board import cached, stuck_counts
from statecore.records import token as tokens
from tests.dashboard.addresses import MANAGE, PAGES, Page, address
from tests.dashboard.scene import Scene, decode_journal
from tests.support import world

EVIL = """<script>alert(1)</script><img src=x onerror=alert(1)>"'</textarea>{{7*7}}"""
# Pages whose cost grows with what they show, not with the tables: the stuck list finds the cause of each row, an
# explanation walks to the root cause, a preview is a real override that is rolled back, a verification reads events,
# a proof reads each kind of link of its entity. The system page reads each part of the installation once.
DEAR = {"stuck", "system", "user_action", "why", "force", "waive", "approval_preview", "audit_verify", "proof"}


@pytest.mark.parametrize("place", [page for page in PAGES if page.name not in DEAR], ids=lambda page: page.name)
def test_a_page_runs_at_most_12_queries(
    place: Page, people: dict[str, Any], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "CACHE_SECONDS", 3600.0)  # even on a slow machine
    client = Client()
    client.force_login(people["superuser" if place.takes == MANAGE else "supervisor"])
    url = address(place, scene)  # may create what the page shows
    client.get(url)  # fills the cache of stuck counts
    with CaptureQueriesContext(connection) as asked:
        assert client.get(url).status_code == 200
    stuck_counts.cache.clear()
    assert len(reading(asked)) <= 12, [query["sql"][:120] for query in asked]


def reading(asked: CaptureQueriesContext) -> list[str]:
    """The statements without those that open a savepoint or set a time limit."""
    return [query["sql"] for query in asked if "SAVEPOINT" not in query["sql"] and "set_config" not in query["sql"]]


def test_a_gate_is_waived_and_its_task_shows_the_waiver(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["supervisor"])
    gate = world.gate()
    task = world.task(workstream=scene.first.workstream_id, entry_gates=[gate.pk])
    page = reverse("console:entity", args=["gates", gate.pk])
    form = reverse("console:waive", args=["gates", gate.pk])
    assert form in client.get(page).content.decode()
    assert task.pk in client.get(form).content.decode()  # the preview

    refused = client.post(form, {"reason": "too short", "category": "other", "hours": "0"})
    assert refused.status_code == 422
    done = client.post(form, {"reason": "the scanner is down today", "category": "other", "hours": "2"})

    assert done.status_code == 302
    assert "the scanner is down today" in client.get(page).content.decode()
    assert "Relies on a waiver" in client.get(reverse("console:entity", args=["tasks", task.pk])).content.decode()
    assert form not in client.get(page).content.decode()


def test_user_input_is_escaped_on_every_page(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["superuser"])
    world.touched(scene.first, last_error=EVIL, metadata={EVIL: EVIL}, payload={"x": EVIL})
    world.forced(scene.second, "cancelled", reason=EVIL)
    scene.alert.detail = EVIL
    scene.alert.save()
    from tests.dashboard.scene import last_forced

    addresses = [
        *(
            address(page, scene)
            for page in PAGES
            if page.name not in ("audit_export", "run_parts", "run_journal", "task_log")
        ),
        reverse("console:machine", args=["tasks"]) + f"?q={EVIL}",
        reverse("console:entity", args=["tasks", "scene-t1"]) + "?tab=data",
        reverse("console:entity", args=["tasks", "scene-t2"]),
        reverse("console:receipt", args=[last_forced()]),
        reverse("console:audit") + f"?entity={EVIL}&actor={EVIL}&kind={EVIL}&since={EVIL}",
    ]
    for url in addresses:
        body = client.get(url).content.decode()
        assert "<script>alert" not in body, url
        assert "<img src=x" not in body, url
        assert "49</textarea>" not in body, url


def test_a_refused_form_shows_the_typed_text_escaped(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["superuser"])
    force, move = (
        reverse("console:force", args=["tasks", "scene-t1"]),
        reverse("console:transition", args=["runs", "scene", "run_canceled"]),
    )
    for url in (force, move):
        answer = client.post(url, {"to": EVIL, "reason": EVIL, "category": EVIL, "version": "999"})
        assert answer.status_code in (409, 422)
        assert "<script>alert" not in answer.content.decode()
    answer = client.post(reverse("console:tokens"), {"name": EVIL, "scope": EVIL})
    assert answer.status_code == 422
    assert "<script>alert" not in answer.content.decode()


def test_typed_text_is_kept_when_the_entity_has_become_final(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["superuser"])
    force = reverse("console:force", args=["tasks", "scene-t1"])
    asked = {"to": "blocked", "reason": "it hangs since noon", "category": "stuck", "version": scene.first.version}
    world.forced(scene.first, "cancelled")

    answer = client.post(force, asked)

    assert answer.status_code == 409
    assert "it hangs since noon" in answer.content.decode()


def test_a_retried_entity_cannot_be_forced(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["superuser"])
    job = world.forced(world.created("IngestionJob"), "quarantined")
    page = reverse("console:entity", args=["ingestion-jobs", job.pk])
    assert client.get(page).context["may_force"]

    transitions.retry(type(job), job.pk, actor=THE_SYSTEM)

    assert not client.get(page).context["may_force"]


@pytest.mark.parametrize(
    "query",
    [
        "\x00",
        "state:nope",
        "age:soon",
        "critical:maybe",
        "worker:",
        "nope:1",
        "x" * 2000,
        "state:",
        "é",
        "age:>999999d",
        "overdue:often",
        "overdue:999.99x",
    ],
)
def test_no_search_breaks_the_page(query: str, people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])

    answer = client.get(reverse("console:machine", args=["tasks"]), {"q": query, "after": query, "order": query})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state:queued", {"scene-t1"}),
        ("state:queued,cancelled", {"scene-t1", "scene-t3"}),
        ("scene-t2", {"scene-t2"}),
        ("id:scene-t2,scene-t3,scene", {"scene-t2", "scene-t3"}),
        ("workstream:scene-w run:scene", {"scene-t1", "scene-t2", "scene-t3"}),
        ("run:other", set()),
        ("age:<1h", {"scene-t1", "scene-t2", "scene-t3"}),
        ("age:>1h", set()),
        ("critical:yes", set()),
        ("overdue:yes", set()),
        ("actor:ada", {"scene-t3"}),
        ("actor:operator", {"scene-t3"}),
        ("actor:system", {"scene-t1", "scene-t2"}),
        ("actor:agent", set()),
        ("channel:system", {"scene-t1", "scene-t2"}),
        ("", {"scene-t1", "scene-t2", "scene-t3"}),
    ],
)
def test_qualifiers_find(query: str, found: set[str], people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])

    page = client.get(reverse("console:machine", args=["tasks"]), {"q": query}).context["page"]

    assert {row.entity.pk for row in page.rows} == found


def test_pages_follow_each_other_without_gap_or_repeat(people: dict[str, Any], db: Any, client: Client) -> None:
    from tests.dashboard.scene import number_all

    workstream = world.workstream()
    made = {world.task(workstream=workstream, id=f"many-{number:03}").pk for number in range(120)}
    number_all()
    client.force_login(people["viewer"])
    for query, order in (("", ""), ("", "id"), ("state:pending", "longest"), ("state:pending", "id")):
        seen: list[str] = []
        url: str | None = reverse("console:machine", args=["tasks"]) + f"?q={query}&order={order}"
        while url:
            context = client.get(url).context
            seen += [row.entity.pk for row in context["page"].rows]
            url = reverse("console:machine", args=["tasks"]) + context["more"] if context["more"] else None
        assert len(seen) == len(set(seen))
        assert made <= set(seen)


RESTLESS = ["restless-0", "restless-3", "restless-2", "restless-1", "scene"]


@pytest.fixture
def restless(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some idle runs, and one with more later events than one page scans."""
    from tests.dashboard.scene import number_all

    monkeypatch.setattr(entities, "SCAN", 2)
    monkeypatch.setattr(entities, "LONG_SCAN", 30)
    made = [world.run(id=f"restless-{number}") for number in range(4)]
    for step in range(80):
        world.forced(made[0], ("running", "pending")[step % 2])
    number_all()


@pytest.mark.usefixtures("restless")
def test_an_entity_that_changes_constantly_hides_no_other(
    people: dict[str, Any], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(people["viewer"])
    url = reverse("console:machine", args=["runs"])
    client.get(url)
    with CaptureQueriesContext(connection) as asked:
        context = client.get(url).context
    assert [row.entity.pk for row in context["page"].rows] == RESTLESS
    assert context["more"] == ""
    assert len(reading(asked)) <= 13

    monkeypatch.setattr(entities, "PAGE_SIZE", 3)
    following = client.get(url + client.get(url).context["more"]).context
    assert [row.entity.pk for row in following["page"].rows] == RESTLESS[3:]
    assert following["more"] == ""


@pytest.mark.usefixtures("restless")
def test_a_range_without_last_events_continues_on_the_next_page(
    people: dict[str, Any], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entities, "FEW", 0)  # as if there were too many to query one by one
    client.force_login(people["viewer"])
    seen, bodies, url = [], [], "?order=recent"
    while url:
        answer = client.get(reverse("console:machine", args=["runs"]) + url)
        bodies.append(answer.content.decode())
        seen += [row.entity.pk for row in answer.context["page"].rows]
        url = answer.context["more"]
    assert seen == RESTLESS
    assert 'data-empty="further"' in bodies[1]
    assert "data-next>Next</a>" in bodies[1]
    assert 'href="?q=&amp;order=recent">First page</a>' in bodies[-1]
    assert not any("Nothing matches" in body for body in bodies)


@pytest.mark.parametrize(
    ("query", "which"),
    [("q=run:nothing", "no-match"), ("q=", "nothing-yet")],
)
def test_an_empty_list_states_the_reason(
    query: str, which: str, people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["viewer"])
    collection = "tasks" if which == "no-match" else "pipeline-jobs"

    body = client.get(reverse("console:machine", args=[collection]) + f"?{query}").content.decode()

    assert f'data-empty="{which}"' in body


def test_a_search_that_times_out_shows_a_message(
    people: dict[str, Any], scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statecore.dashboard.queries import time_limit

    monkeypatch.setattr(time_limit, "SECONDS", -1.0)
    monkeypatch.setattr(time_limit, "STEPS", 1)
    client.force_login(people["viewer"])
    if connection.vendor == "postgresql":
        pytest.skip("PostgreSQL takes no negative time; see the next test")

    body = client.get(reverse("console:machine", args=["tasks"])).content.decode()

    assert 'data-empty="timed-out"' in body


def test_a_statement_is_ended_at_the_time_limit(db: Any) -> None:
    from statecore.dashboard.queries.time_limit import TimedOut, time_limit

    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(TimedOut), time_limit(0.05), connection.cursor() as cursor:
        cursor.execute(endless)


def test_the_export_contains_all_batches(
    people: dict[str, Any], scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statecore.journal import Position

    monkeypatch.setattr("statecore.dashboard.pages.audit.EXPORT_BATCH", 2)
    client.force_login(people["viewer"])
    body = b"".join(client.get(reverse("console:audit_export")).streaming_content)  # type: ignore[arg-type]
    assert [json.loads(line)["position"] for line in body.splitlines()] == list(
        Position.objects.exclude(kind="account").order_by("position").values_list("position", flat=True)
    )


def test_the_export_is_a_line_for_each_event_that_matches(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])

    body = b"".join(client.get(reverse("console:audit_export"), {"entity": "scene-t3"}).streaming_content)  # type: ignore[arg-type]

    events = [json.loads(line) for line in body.splitlines()]
    assert [event["to_state"] for event in events][-1] == "cancelled"
    assert {event["entity_id"] for event in events} == {"scene-t3"}


def test_an_override_shows_the_number_of_its_consequences(
    people: dict[str, Any], scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.dashboard.scene import last_forced, number_all

    client.force_login(people["viewer"])
    world.forced(scene.run, "canceled")
    number_all()
    receipt = reverse("console:receipt", args=[last_forced()])
    caused = client.get(receipt).context["caused"]
    assert {event["entity_type"] for event in caused} >= {"workstream", "task"}
    link = f'<a class="small nowrap" href="{receipt}">{len(caused)}%s downstream changes</a>'
    overrides = reverse("console:overrides")
    assert link % "" in client.get(overrides).content.decode()
    assert client.get(overrides).content.decode().count(" downstream changes</a>") == 1

    monkeypatch.setattr(history, "WINDOW", len(caused))
    assert link % "+" in client.get(overrides).content.decode()
    may = Permission.objects.filter(codename__in=["view_run", "view_workstream", "view_event"])
    people["nobody"].user_permissions.add(*may)
    client.force_login(people["nobody"])
    assert client.get(overrides).context["events"][0]["consequences"].changes == 1


def test_the_last_page_of_the_audit_leads_back_to_the_newest(
    people: dict[str, Any], scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statecore.dashboard.pages.audit.PAGE_SIZE", 3)
    client.force_login(people["viewer"])
    first, last = client.get("/audit/?machine=task"), client.get("/audit/?machine=task&before=3")

    assert ("Newest" in first.content.decode(), "Older" in first.content.decode()) == (False, True)
    assert last.context["more"] is None
    assert '<a class="button small" href="?machine=task">Newest</a>' in last.content.decode()


@pytest.mark.parametrize(
    "query", ["since=0001-01-01T00:00", "until=9999-12-31T23:59", "since=0001-01-01T00:00%2B14:00"]
)
def test_the_audit_accepts_the_first_and_the_last_time(
    query: str, people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["viewer"])
    assert client.get(f"{reverse('console:audit')}?{query}").status_code == 200
    assert b"".join(client.get(f"{reverse('console:audit_export')}?{query}").streaming_content)


def test_a_page_beyond_the_ends_of_time_is_the_first(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["viewer"])
    url = reverse("console:machine", args=["tasks"])
    assert client.get(f"{url}?q=state:queued&after=0001-01-01T00:00:00%2B14:00~x").status_code == 200


def test_overdue_entities_are_counted_in_one_query(scene: Scene) -> None:
    from statecore.kernel.clock import now
    from statecore.read_models.stuck.overdue import count_overdue
    from statecore.scheduling import expectations

    expectations.cache.get()  # otherwise read by the first count of a minute
    with CaptureQueriesContext(connection) as asked:
        counts = count_overdue(now() + timedelta(days=30))
    assert len(asked) <= 3  # the other queries find breakers that cool down, and active holds
    assert {(machine, state) for machine, state, count in counts if count} >= {("task", "queued"), ("run", "running")}


@pytest.mark.parametrize(
    ("query", "conditions"),
    [
        ("", {"states": [], "prefixes": [], "within": {}, "is_complete": True}),
        ("state:FAILED t-", {"states": ["failed"], "prefixes": ["t-"], "within": {}, "is_complete": True}),
        ("run:r1", {"states": [], "prefixes": [], "within": {"run_id": "r1"}, "is_complete": True}),
        ("age:>1h", {"states": [], "prefixes": [], "within": {}, "is_complete": False}),
    ],
)
def test_a_search_lists_the_conditions_that_events_can_be_checked_against(
    query: str, conditions: dict[str, Any]
) -> None:
    from statecore.dashboard.queries import search
    from statecore.kernel import registry
    from statecore.kernel.clock import now

    assert search.parse(query, registry.flow("task"), now()).event_filter() == conditions


def test_get_started_copies_the_commands_it_shows(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    body = client.get(reverse("console:start")).content.decode()

    for name in ("simulate", "token", "agent"):
        command = client.get(reverse("console:start")).context[name]
        assert re.search(rf'<code data-command="\w+">{re.escape(command)}</code>', body)
        assert f'data-copy="{command}"' in body


def test_the_calls_on_get_started_work(people: dict[str, Any], client: Client) -> None:
    """In the order shown, with a token from the command shown before them."""
    client.force_login(people["operator"])
    page = client.get(reverse("console:start"))
    shown = re.findall(r"<pre[^>]*>(.*?)</pre>", page.content.decode(), re.DOTALL)
    scope = re.fullmatch(r".* --scope (\w+)\)", page.context["token"])[1]
    _token, text = tokens.make("first steps", people["operator"], scope)

    for curl, place, *_headers, _d, body in (shlex.split(unescape(call)) for call in shown):
        answer = Client(headers={"Authorization": f"Bearer {text}"}).post(
            place.removeprefix("http://testserver"), body, content_type="application/json"
        )
        assert (curl, answer.status_code) == ("curl", 201), answer.content

    assert {task.pk: task.state for task in Task.objects.filter(pk__in=["first", "second"])} == {
        "first": "queued",
        "second": "blocked",
    }


def test_a_long_journal_of_a_run_is_returned_in_batches(
    people: dict[str, Any], scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(people["viewer"])
    place = reverse("console:run_journal", args=["scene"])
    whole = client.get(place).json()
    assert not whole["more"]

    monkeypatch.setattr(runs, "MAX_EVENTS", 3)
    pieces, after, more = [], 0, True
    while more:
        page = client.get(place, {"after": after}).json()
        pieces += decode_journal(page)
        after, more = page["position"], page["more"]
    assert len(pieces) > 3
    assert pieces == decode_journal(whole)


def test_the_parts_of_a_run_have_their_tries_and_links(people: dict[str, Any], scene: Scene, client: Client) -> None:
    world.forced(scene.first, "failed")
    again = transitions.retry(Task, scene.first.pk, actor=THE_SYSTEM).entity
    client.force_login(people["viewer"])

    drawn = client.get(reverse("console:run_parts", args=["scene"])).json()

    place = {pk: number for number, pk in enumerate(drawn["ids"])}
    edges = set(zip(drawn["edges"][::2], drawn["edges"][1::2], strict=True))
    assert drawn["types"][drawn["kinds"][place["scene-w"]]] == "workstream"
    assert drawn["parents"][place["scene-t1"]] == place["scene-w"]
    assert drawn["retry_of"][place[again.pk]] == place["scene-t1"]
    assert drawn["retry_of"][place["scene-t1"]] == -1
    assert edges == {(place[again.pk], place["scene-t2"])}  # dependents follow the successor
