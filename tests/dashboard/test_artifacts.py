"""The page of a task shows its result and its artifacts, with links that download them."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.artifacts import changes
from statecore.artifacts.changes import Place
from statecore.artifacts.upload import Upload
from tests.support import world

pytestmark = pytest.mark.django_db
CONTENT = b"<script>alert(1)</script>" * 100


@pytest.fixture
def task(tmp_path: Path, settings: Any) -> Any:
    ours = {"BACKEND": "statecore.artifacts.disk.DiskStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": ours}
    return world.running_task()


def store(task: Any, name: str) -> None:
    upload = Upload(io.BytesIO(CONTENT), hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    changes.put(Place(task.pk, name, world.operator(), None, "text/html"), upload)


def open_tab(client: Client, task: Any) -> str:
    address = reverse("console:entity", args=["tasks", task.pk])
    return client.get(f"{address}?tab=result").content.decode()


def test_the_result_and_the_artifacts_are_shown_and_downloaded(
    task: Any, people: dict[str, Any], client: Client
) -> None:
    client.force_login(people["viewer"])
    page = open_tab(client, task)
    assert "The task has no result yet." in page
    assert "The task has no artifacts." in page
    store(task, "report.html")
    world.fire(task, "execution_completed", exit_code=0, result={"passed": [1, "<b>"]})

    page = open_tab(client, task)

    assert "&quot;passed&quot;: [" in page
    assert "&lt;b&gt;" in page
    url = f"/api/v1/tasks/{task.pk}/artifacts/report.html"
    assert f'href="{url}" download' in page
    for shown in ("2.4\xa0KB", hashlib.sha256(CONTENT).hexdigest(), "by ada", "text/html"):
        assert shown in page
    response = client.get(url)
    assert (response["Content-Type"], b"".join(response.streaming_content)) == ("application/octet-stream", CONTENT)
    assert response["Content-Disposition"] == 'attachment; filename="report.html"'
    assert "sandbox" in response["Content-Security-Policy"]


def test_accounts_without_permission_see_and_download_nothing(
    task: Any, people: dict[str, Any], client: Client
) -> None:
    store(task, "x")
    client.force_login(people["nobody"])
    assert client.get(reverse("artifact", args=[task.pk, "x"])).status_code == 403
