"""Trends: charts of a period against the one before, by machine and by capability, and the same as CSV."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from statecore.kernel.clock import now
from statecore.read_models.trends import Scope, build_report, choose_range
from statecore.records import CapabilityRollUp, DwellRollUp, LoadRollUp, TransitionRollUp
from statecore.records.roll_up import Load, Resolution, find_bucket

pytestmark = pytest.mark.django_db
EVERY = frozenset({"task", "worker", "run"})


@pytest.fixture
def recorded(db: Any) -> None:
    """Two hours: in the last one three tasks that waited for a minute and one that ran for an hour and failed."""
    cache.clear()
    TransitionRollUp.objects.all().delete()
    for minutes, count in ((100, 1), (30, 4)):
        start = Resolution.MINUTE.truncate(now()) - timedelta(minutes=minutes)
        period = {"resolution": Resolution.MINUTE, "start": start}
        edge = {**period, "entity_type": "task", "from_state": "running", "to_state": "failed"}
        TransitionRollUp.objects.create(**edge, count=count, failures=count, overrides=1)
        for state, seconds in (("queued", 60), ("running", 3600)):
            stay = {**period, "state": state, "bucket": find_bucket(seconds), "count": count}
            DwellRollUp.objects.create(**stay, entity_type="task")
            CapabilityRollUp.objects.create(**stay, capability="git", failures=count if state == "running" else 0)
        for measure, total in ((Load.SLOTS, 8), (Load.BUSY, 2), (Load.QUEUED, 40)):
            for subject in ("", "git"):
                LoadRollUp.objects.create(**period, measure=measure.value, subject=subject, total=total, samples=1)
    TransitionRollUp.objects.create(
        resolution=Resolution.MINUTE, start=now() - timedelta(hours=40), entity_type="run", to_state="pending", count=1
    )


def read_totals(scope: Scope) -> dict[str, tuple[float | None, float | None]]:
    report = build_report(scope, choose_range("1h", now()))
    return {panel.name: (panel.total, panel.total_before) for panel in report.panels}


def test_a_period_is_compared_with_the_one_before(recorded: None) -> None:
    totals = read_totals(Scope(EVERY))
    assert totals["failures"] == (4, 1)
    assert totals["throughput"] == (pytest.approx(4 / 60), pytest.approx(1 / 60))
    assert totals["queue_wait"] == (64, 64), "the bound of the bucket"
    assert 3600 <= (totals["duration"][0] or 0) < 1.2 * 3600
    assert totals["utilisation"] == (25, 25)
    assert totals["queue"] == (40, 40)
    assert read_totals(Scope(EVERY, capability="git")) == {
        name: totals[name] for name in ("throughput", "failures", "queue_wait", "duration", "utilisation", "queue")
    }
    assert read_totals(Scope(frozenset({"run"}), entity_type="run"))["failures"] == (0, 0)
    assert set(read_totals(Scope(frozenset({"task"})))).isdisjoint({"utilisation", "queue"}), "workers are hidden"


def test_nothing_is_compared_with_a_time_before_recording_began(recorded: None) -> None:
    TransitionRollUp.objects.filter(entity_type="run").delete()
    assert read_totals(Scope(EVERY))["failures"] == (4, None)


def test_the_page_shows_what_the_file_contains(recorded: None, people: dict[str, Any], client: Client) -> None:
    client.force_login(people["viewer"])
    body = client.get(reverse("console:trends"), headers={"HX-Request": "true"}).content.decode()
    assert 'data-chart="failures"' in body
    assert "+300 %, 1 before" in body
    assert reverse("console:capability", args=["git"]) in body
    rows = list(csv.DictReader(io.StringIO(client.get(reverse("console:trends_csv")).content.decode())))
    assert len(rows) == 60
    assert sum(float(row["failures: failures (count)"]) for row in rows) == 4
    assert {row["queue_wait: p95 (seconds)"] for row in rows} == {"", "64"}


def test_a_range_is_in_the_url_and_a_wrong_one_is_explained(
    recorded: None, people: dict[str, Any], client: Client
) -> None:
    client.force_login(people["viewer"])
    page = client.get(reverse("console:machine", args=["tasks"]), {"q": "state:queued", "range": "7d"}).content.decode()
    assert "machine=task&amp;q=state%3Aqueued&amp;range=7d" in page
    shown = client.get(reverse("console:trends"), {"machine": "task", "q": "state:queued", "range": "7d"})
    assert "?q=state%3Aqueued&amp;range=30d" in shown.content.decode()
    assert "Nothing is recorded for this period" in shown.content.decode()
    future = {"since": (now() + timedelta(days=1)).isoformat(), "until": (now() + timedelta(days=2)).isoformat()}
    assert "This range cannot be shown" in client.get(reverse("console:trends"), future).content.decode()


def test_only_machines_that_the_user_may_see_are_shown(recorded: None, people: dict[str, Any], client: Client) -> None:
    person = people["nobody"]
    person.user_permissions.add(Permission.objects.get(codename="view_run"))
    client.force_login(person)
    body = client.get(reverse("console:trends")).content.decode()
    assert 'data-chart="failures"' not in body
    for wanted in ({"machine": "task"}, {"capability": "git"}):
        assert client.get(reverse("console:trends"), wanted).status_code == 403
    assert client.get(reverse("console:capability", args=["git"])).status_code == 403
