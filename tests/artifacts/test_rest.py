"""Storing, reading and deleting artifacts over REST: rights, refusals, and the headers that protect browsers."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from statecore import transitions
from statecore.api.live.body_limit import BodyLimit
from statecore.machines.task import Task
from statecore.operations import integrity
from statecore.records import Artifact, ArtifactContent
from statecore.storage import roles
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.artifacts.calls import Builder, files_in, get, put, read
from tests.support import world

pytestmark = pytest.mark.django_db
CONTENT = b"\x00\xff built \r\n" * 1_000
DISK = Path("/dev/full")
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def test_an_artifact_is_stored_listed_read_and_deleted(builder: Builder, storage: Path) -> None:
    stored = expect_ok(put(builder, "a/app-1.0.whl?attempt=1", CONTENT, "application/zip"), 201)
    assert {name: stored[name] for name in ("task", "name", "size", "sha256", "content_type", "attempt")} == {
        "task": "a", "name": "app-1.0.whl", "size": len(CONTENT), "sha256": DIGEST, "content_type": "application/zip",
        "attempt": 1,
    }  # fmt: skip
    assert expect_ok(builder.get("tasks/a/artifacts/"))["results"] == [stored]
    assert read(get(builder, "a/app-1.0.whl")) == CONTENT
    assert list(files_in(storage).values()) == [CONTENT]

    assert builder.delete("tasks/a/artifacts/app-1.0.whl?attempt=1").status_code == 204
    assert expect_ok(builder.get("tasks/a/artifacts/"))["results"] == []
    expect_refusal(get(builder, "a/app-1.0.whl"), 404, "not_found")
    expect_refusal(builder.delete("tasks/a/artifacts/app-1.0.whl?attempt=1"), 404, "not_found")


def test_a_repeated_put_changes_nothing_and_another_content_replaces_and_is_recorded(builder: Builder) -> None:
    first = expect_ok(put(builder, "a/x?attempt=1", b"one"), 201)
    version = Task.objects.get(pk="a").version
    assert expect_ok(put(builder, "a/x?attempt=1", b"one")) == first
    assert Task.objects.get(pk="a").version == version

    second = expect_ok(put(builder, "a/x?attempt=1", b"two!"))

    assert read(get(builder, "a/x")) == b"two!"
    event = world.last_event(Task.objects.get(pk="a"))
    before, after = f"sha256 {first['sha256']}, 3 bytes", f"sha256 {second['sha256']}, 4 bytes"
    assert event["metadata"]["changed"] == {"artifact x": f"{before} → {after}"}
    assert (event["kind"], event["actor"]) == ("edited", builder.token.actor().name)
    assert integrity.check_all() == []


def test_a_content_is_stored_once_however_many_tasks_name_it(builder: Builder, storage: Path) -> None:
    for path in ("a/x", "a/y"):
        expect_ok(put(builder, f"{path}?attempt=1", CONTENT), 201)
    expect_ok(put(Caller("operate"), "b/x", CONTENT), 201)
    assert (Artifact.objects.count(), ArtifactContent.objects.count(), len(files_in(storage))) == (3, 1, 1)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 409, "lease_lost"),
        ("?attempt=2", 409, "lease_lost"),
        ("?attempt=x", 400, "invalid"),
        ("?other=1", 400, "invalid"),
    ],
)
def test_an_agent_needs_the_current_attempt(builder: Builder, query: str, status: int, code: str) -> None:
    expect_refusal(put(builder, f"a/x{query}", b"1"), status, code)
    expect_refusal(builder.delete(f"tasks/a/artifacts/x{query}"), status, code)
    assert not ArtifactContent.objects.exists()


def test_only_the_holder_and_operators_change_artifacts(builder: Builder) -> None:
    expect_refusal(put(Caller("agent"), "a/x?attempt=1", b"1"), 403, "not_the_holder")
    expect_refusal(put(Caller("read"), "a/x?attempt=1", b"1"), 403, "permission_denied")
    expect_ok(put(Caller("operate", user=member("o", "operator")), "a/x", b"1"), 201)
    expect_refusal(put(Caller("operate"), "a/x?attempt=7", b"1"), 409, "lease_lost")


def test_an_agent_changes_nothing_after_its_report(builder: Builder) -> None:
    expect_ok(put(builder, "a/x?attempt=1", b"1"), 201)
    builder.complete("a")
    expect_refusal(put(builder, "a/x?attempt=1", b"2"), 409, "lease_lost")
    expect_refusal(builder.delete("tasks/a/artifacts/x?attempt=1"), 409, "lease_lost")
    assert builder.delete("tasks/a/artifacts/x").status_code == 409
    assert Caller("operate").delete("tasks/a/artifacts/x").status_code == 204


def test_an_agent_without_permission_to_view_reads_what_its_dependencies_stored(builder: Builder) -> None:
    expect_ok(put(builder, "a/x?attempt=1", b"data"), 201)
    builder.complete("a")
    user = User.objects.create_user("narrow")
    for name in ("operate_worker", "operate_task"):
        user.user_permissions.add(_permission(name))
    narrow = Caller("agent", user=user)
    expect_refusal(get(narrow, "a/x"), 403, "permission_denied")
    expect_refusal(get(narrow, "unknown/x"), 403, "permission_denied")
    expect_ok(narrow.post("workers/", {"id": "w2"}), 201)
    (task,) = expect_ok(narrow.post("workers/w2/claim/"))["tasks"]
    assert task["id"] == "b"
    assert read(get(narrow, "a/x")) == b"data"
    assert len(expect_ok(narrow.get("tasks/a/artifacts/"))["results"]) == 1
    narrow.post("tasks/b/transitions/", {"trigger": "execution_completed", "attempt": 1, "exit_code": 0})
    expect_refusal(get(narrow, "a/x"), 403, "permission_denied")


def _permission(codename: str) -> Any:
    from django.contrib.auth.models import Permission

    return Permission.objects.get(codename=codename)


def test_a_reader_reads_those_of_the_newest_successor_on_request(builder: Builder) -> None:
    expect_ok(put(builder, "a/x?attempt=1", b"old"), 201)
    world.forced(Task.objects.get(pk="a"), "failed")
    successor = transitions.retry(Task, "a", actor=world.operator()).entity
    assert successor is not None
    operator = Caller("operate")
    expect_ok(put(operator, f"{successor.pk}/x", b"new"), 201)
    assert (read(get(operator, "a/x")), read(get(operator, "a/x?newest=true"))) == (b"old", b"new")
    (listed,) = expect_ok(operator.get("tasks/a/artifacts/?newest=true"))["results"]
    assert listed["task"] == successor.pk


def test_no_browser_executes_an_artifact(builder: Builder) -> None:
    for name, content_type in (("evil.html", "text/html"), ("evil.js", "text/javascript"), ("a.svg", "image/svg+xml")):
        expect_ok(put(builder, f"a/{name}?attempt=1", b"<script>alert(1)</script>", content_type), 201)
        response = get(builder, f"a/{name}")
        assert response["Content-Type"] == "application/octet-stream"
        assert response["Content-Disposition"] == f'attachment; filename="{name}"'
        assert response["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in response["Content-Security-Policy"]
        read(response)
    expect_ok(put(builder, "a/log?attempt=1", b"text", "text/plain; charset=utf-8"), 201)
    response = get(builder, "a/log")
    assert (response["Content-Type"], read(response)) == ("text/plain; charset=utf-8", b"text")


def test_a_content_that_the_caller_has_is_not_sent_again(builder: Builder) -> None:
    expect_ok(put(builder, "a/x?attempt=1", CONTENT), 201)
    etag = f'"{DIGEST}"'
    response = get(builder, "a/x", If_None_Match=f'"other", W/{etag}')
    assert (response.status_code, response.content, response["ETag"]) == (304, b"", etag)
    head = builder("head", "tasks/a/artifacts/x")
    assert (head.status_code, head["Content-Length"], head.content) == (200, str(len(CONTENT)), b"")


@pytest.mark.parametrize(("asked", "expected"), [
    ("bytes=0-3", b"0123"), ("bytes=7-", b"789"), ("bytes=-2", b"89"), ("bytes=5-99", b"56789"), ("bytes=0-0", b"0"),
])  # fmt: skip
def test_a_range_is_sent(builder: Builder, asked: str, expected: bytes) -> None:
    expect_ok(put(builder, "a/x?attempt=1", b"0123456789"), 201)
    response = get(builder, "a/x", Range=asked)
    assert (response.status_code, read(response)) == (206, expected)
    assert response["Content-Length"] == str(len(expected))
    assert read(get(builder, "a/x", Range=asked, If_Range='"other"')) == b"0123456789"


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=5-2", "bytes=-0"])
def test_a_range_beyond_the_content_is_refused(builder: Builder, asked: str) -> None:
    expect_ok(put(builder, "a/x?attempt=1", b"0123456789"), 201)
    expect_refusal(get(builder, "a/x", Range=asked), 416, "range_not_satisfiable")


def test_an_empty_artifact_is_an_artifact(builder: Builder) -> None:
    expect_ok(put(builder, "a/empty?attempt=1", b""), 201)
    assert read(get(builder, "a/empty")) == b""


@pytest.mark.parametrize("name", ["..", ".", "a b", "é", "x" * 129, "a%00b", "a%22b"])
def test_other_names_are_refused(builder: Builder, name: str) -> None:
    response = put(builder, f"a/{name}?attempt=1", b"1")
    assert response.status_code in (400, 404), response
    assert get(builder, f"a/{name}").status_code in (400, 404)
    assert not ArtifactContent.objects.exists()


LIMITS = {
    "STATECORE_ARTIFACT_BYTES": 9,
    "STATECORE_ARTIFACT_TASK_BYTES": 14,
    "STATECORE_ARTIFACT_TOTAL_BYTES": 14,
    "STATECORE_ARTIFACTS_PER_TASK": 1,
}


@pytest.mark.parametrize(("setting", "limit"), LIMITS.items())
def test_limits_are_refused_with_their_setting_and_keep_nothing(
    builder: Builder, settings: Any, storage: Path, setting: str, limit: int
) -> None:
    expect_ok(put(builder, "a/x?attempt=1", b"12345"), 201)
    setattr(settings, setting, limit)
    problem = expect_refusal(put(builder, "a/y?attempt=1", b"1234567890"), 413, "too_large")
    assert problem["setting"] == setting
    assert (len(files_in(storage)), ArtifactContent.objects.count()) == (1, 1)
    expect_ok(put(builder, "a/x?attempt=1", b"123456789"))


def test_a_put_needs_its_length(builder: Builder, storage: Path) -> None:
    expect_refusal(put(builder, "a/x?attempt=1", b"12345", Transfer_Encoding="chunked"), 411, "length_required")
    assert not files_in(storage)


def test_a_lost_content_and_a_broken_storage_are_named(builder: Builder, storage: Path) -> None:
    expect_ok(put(builder, "a/x?attempt=1", b"1"), 201)
    for path in storage.rglob("*/*"):
        path.unlink()
    assert "lost" in expect_refusal(get(builder, "a/x"), 404, "not_found")["detail"]
    for folder in storage.glob("*"):
        folder.rmdir()
    storage.rmdir()
    storage.write_text("a file in place of the folder")
    expect_refusal(put(builder, "a/y?attempt=1", b"2"), 503, "storage_unavailable")


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_full_disk_is_named_and_keeps_nothing(
    builder: Builder, storage: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: DISK.open("w+b"))
    problem = expect_refusal(put(builder, "a/x?attempt=1", b"x" * size), 503, "storage_unavailable")
    assert "disk" in problem["detail"]
    assert (files_in(storage), ArtifactContent.objects.count()) == ({}, 0)


def test_a_disk_that_is_full_before_any_view_is_called_is_named() -> None:
    """Django writes large bodies to a temporary file first."""

    async def django(scope: Any, receive: Any, send: Any) -> None:
        with DISK.open("wb") as file:
            file.write((await receive())["body"])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 100_000}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/api/v1/tasks/", "headers": []}
    asyncio.run(BodyLimit(django)(scope, receive, send))
    assert (sent[0]["status"], b"storage_unavailable" in sent[1]["body"]) == (503, True)


@pytest.mark.postgres
def test_the_roles_know_the_tables() -> None:
    assert roles.list_rights("web")["statecore_artifact"] == "SELECT, INSERT, UPDATE, DELETE"
    assert roles.list_rights("reader")["statecore_artifactcontent"] == "SELECT"
