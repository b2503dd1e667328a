"""The pages of holds and pauses: forms, countdown, release, history and notices."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.dashboard import diagram
from statecore.kernel.clock import rfc3339
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.records.hold import Hold
from tests.dashboard.scene import Scene

pytestmark = pytest.mark.django_db
PLACED = {"kind": "everything", "target": "", "minutes": "60", "reason": "the disk is full"}


def text_of(client: Client, name: str) -> str:
    answer = client.get(reverse(f"console:{name}"))
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def operator(client: Client, people: dict[str, Any], scene: Scene) -> Client:
    client.force_login(people["operator"])
    return client


def test_an_operator_holds_everything_and_releases_it(operator: Client) -> None:
    assert "No work is held" in text_of(operator, "holds")
    assert operator.post(reverse("console:holds"), PLACED).status_code == 302
    hold = Hold.objects.get()
    assert hold.expires_at is not None
    for page in ("holds", "overview", "wall"):
        text = text_of(operator, page)
        assert 'data-format="countdown"' in text
        assert "the disk is full" in text
    released = operator.post(reverse("console:release_hold", args=[hold.pk]), {"reason": "space again"})
    assert released.status_code == 302
    text = text_of(operator, "holds")
    assert "No work is held" in text
    assert "space again" in text


def test_a_run_is_held_until_the_release(operator: Client, scene: Scene) -> None:
    operator.post(reverse("console:holds"), {**PLACED, "kind": "run", "target": "scene", "minutes": ""})
    hold = Hold.objects.get()
    assert (hold.scope, hold.expires_at) == ("run:scene", None)
    assert "until released" in text_of(operator, "holds")


def test_a_refused_form_keeps_what_was_typed(operator: Client) -> None:
    answer = operator.post(reverse("console:holds"), {**PLACED, "kind": "run", "target": "nowhere"})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "there is no run nowhere" in text
    assert 'value="nowhere"' in text
    assert 'value="the disk is full"' in text


def test_a_viewer_sees_holds_and_changes_none(client: Client, people: dict[str, Any], scene: Scene) -> None:
    client.force_login(people["viewer"])
    assert 'id="hold-form"' not in text_of(client, "holds")
    assert client.post(reverse("console:holds"), PLACED).status_code == 403
    assert client.post(reverse("console:release_hold", args=["hold_1"]), {"reason": "no"}).status_code == 403


def test_a_run_is_paused_and_resumed_from_its_page(operator: Client, scene: Scene) -> None:
    page, pause, resume = (reverse(f"console:{name}", args=["scene"]) for name in ("run", "pause_run", "resume_run"))
    assert "Pause run" in operator.get(page).content.decode()
    given = {"reason": "upgrade", "until": "2099-01-01T12:00"}
    assert operator.post(pause, given).headers["Location"] == page
    workstream = Workstream.objects.get(pk="scene-w")
    assert (str(workstream.state), rfc3339(workstream.paused_until)) == ("paused", "2099-01-01T12:00:00.000000Z")
    assert "Resume run" in operator.get(page).content.decode()
    assert operator.post(pause, given).status_code == 409
    assert operator.post(resume, {"reason": "done"}).status_code == 302
    workstream.refresh_from_db()
    assert workstream.state != "paused"


def test_a_transition_that_stays_in_its_state_has_no_line(people: dict[str, Any]) -> None:
    edges = diagram.machine_drawing(Worker.flow)["edges"]
    assert [each for each in edges if each["from"] == each["to"]] == []


def test_a_forced_edge_is_drawn_but_not_laid_out() -> None:
    forced = ("initializing", "shutdown")
    plain, drawn = (diagram.machine_drawing(Worker.flow, forced=edges)["edges"] for edges in ((), [forced]))
    assert all(each["declared"] for each in plain)
    assert [(each["from"], each["to"]) for each in drawn if not each["declared"]] == [forced]
