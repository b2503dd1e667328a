"""Log lines of a request name its id, its actor and its entity."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from statecore.project import logs
from statecore.records import token as tokens
from statecore.request_context import HEADER, find_entity
from tests.support import world

pytestmark = pytest.mark.django_db
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Captures log lines as the settings format them, as JSON."""
    formatter = logs.configuration("json", "INFO")["formatters"]["statecore"]
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter.pop("()")(**formatter))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(before)


def bearer(name: str, scope: str) -> dict[str, str]:
    user = User.objects.create_superuser("ada", password="!")
    _token, text = tokens.make(name, user, scope)
    return {"Authorization": f"Bearer {text}"}


def test_an_api_log_line_names_the_request_the_token_and_the_entity(lines: Lines) -> None:
    task = world.task()
    answer = Client().get(f"/api/v1/tasks/{task.pk}/", headers=bearer("builder", "agent"))
    (finished,) = lines()

    assert answer.status_code == 200
    assert finished["request_id"] == answer[HEADER]
    assert (finished["entity_type"], finished["entity_id"]) == ("task", task.pk)
    assert (finished["actor"], finished["by"], finished["code"]) == ("builder", "token builder", 200)


def test_an_operators_token_is_logged_as_its_user(lines: Lines) -> None:
    Client().get("/api/v1/runs/", headers=bearer("desk", "operate"))
    finished = lines()[-1]

    assert (finished["actor"], finished["by"]) == ("ada", "token desk")
    assert "entity_id" not in finished


def test_a_console_log_line_names_the_user(lines: Lines) -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("bob", password="!"))
    run = world.run()
    before = len(lines())
    browser.get(f"/runs/{run.pk}/")
    (finished,) = lines()[before:]

    assert (finished["event"], finished["request"], finished["code"]) == ("request", f"GET /runs/{run.pk}/", 200)
    assert (finished["actor"], finished["by"]) == ("bob", "session")
    assert (finished["entity_type"], finished["entity_id"]) == ("run", run.pk)


def test_a_refused_override_is_logged_with_the_request_id(lines: Lines) -> None:
    """Log lines of the transition service carry the context of the request."""
    run = world.run()
    body = {"to_state": "failed", "reason": "short", "category": "other"}
    answer = Client().post(
        f"/api/v1/runs/{run.pk}/override/", json.dumps(body), content_type="application/json",
        headers=bearer("desk", "override"),
    )  # fmt: skip
    (refused,) = (line for line in lines() if line["event"] == "override_refused")

    assert answer.status_code == 400
    assert (refused["request_id"], refused["entity_id"], refused["actor"]) == (answer[HEADER], run.pk, "ada")


def test_an_anonymous_request_has_no_actor(lines: Lines) -> None:
    answer = Client().get("/api/v1/runs/")

    assert (answer.status_code, "actor" in lines()[-1]) == (401, False)
    assert answer[HEADER] == lines()[-1]["request_id"]


def test_probes_and_metrics_are_not_logged(lines: Lines) -> None:
    for path in ("/healthz", "/readyz?check=database", "/metrics"):
        Client().get(path)

    assert [line for line in lines() if line["event"] == "request"] == []


def test_a_failing_page_is_one_line_with_its_traceback(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("statecore.project.health.JsonResponse", fail)
    answer = Client(raise_request_exception=False).get("/healthz")
    (failed,) = [line for line in lines() if line["event"] == "request"]

    assert (answer.status_code, failed["level"], failed["code"]) == (500, "error", 500)
    assert "a bug" in json.dumps(failed["exception"])


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/api/v1/tasks/t1/transitions/", {"entity_type": "task", "entity_id": "t1"}),
        ("/api/v1/gates/UNIT/", {"entity_type": "test_gate", "entity_id": "UNIT"}),
        ("/patches/p.1/force/", {"entity_type": "patch_ledger", "entity_id": "p.1"}),
        ("/api/v1/runs/submit/", {}),
        ("/api/v1/tasks/bulk-transitions/", {}),
        ("/api/v1/tasks/", {}),
        ("/api/v1/diffs/d1/", {}),
        ("/tasks/~views/", {}),
        ("/", {}),
    ],
)
def test_the_entity_is_derived_from_the_path(path: str, found: dict[str, str]) -> None:
    assert find_entity(path) == found
