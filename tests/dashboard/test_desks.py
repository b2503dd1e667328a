"""Sections of one machine: a worker's tasks, a patch's diff and rollback, checkpoints, the log of an agent job."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from statecore.dashboard.queries import diff
from statecore.machines.run import Run
from statecore.machines.worker import Worker
from statecore.records import Patch, checkpoint
from tests.dashboard.scene import Scene
from tests.support import world

HX = {"HX-Request": "true"}
DIFF = """diff --git a/one.py b/one.py
index 1..2 100644
--- a/one.py
+++ b/one.py
@@ -1,2 +1,2 @@ def f():
 same
--- old, which looks like a heading
+++ new, which looks like one too
diff --git a/two.py b/two.py
new file mode 100644
--- /dev/null
+++ b/two.py
@@ -0,0 +1 @@
+only
\\ No newline at end of file
"""


def test_a_diff_is_read_by_the_numbers_of_its_hunks() -> None:
    one, two = diff.parse(DIFF).files
    assert [(file.name, file.added, file.removed) for file in (one, two)] == [("one.py", 1, 1), ("two.py", 1, 0)]
    assert [(line.kind, line.old, line.new) for line in one.lines] == [
        ("heading", None, None), ("context", 1, 1), ("removed", 2, None), ("added", None, 2)
    ]  # fmt: skip
    assert [line.text for line in two.lines if line.kind == "note"] == [
        "new file mode 100644",
        "\\ No newline at end of file",
    ]
    assert diff.parse("").files == []
    assert diff.parse("+\n" * 6_000).is_cut


def test_a_worker_shows_its_load_and_tasks_and_is_drained_with_a_preview(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    task = world.running_task()
    page = client.get(f"/machines/workers/{task.worker_id}/?tab=worker_tasks")
    assert [held.pk for held, _liveness in page.context["tasks"]] == [task.pk]
    assert "Drain worker" in page.content.decode()

    confirm = client.post("/machines/workers/~select/", {"ids": [task.worker_id], "action": "drain"})["Location"]
    assert "Drain 1 worker" in client.get(confirm).content.decode()
    client.post(confirm.partition("?")[0], {"action": "drain"})
    assert Worker.objects.get(pk=task.worker_id).draining
    assert "Drain worker" not in client.get(f"/machines/workers/{task.worker_id}/").content.decode()


def test_a_patch_shows_its_diff_and_the_steps_of_its_rollback(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    record = Patch.objects.create(id="diffed", diff=DIFF)
    entry = world.patch(patch=record)
    page = client.get(f"/machines/patches/{entry.pk}/?tab=diff").content.decode()
    assert "<code>only</code>" in page
    assert "No newline at end of file" in page

    rollback = f"/machines/patches/{entry.pk}/compensation/"
    assert "Only a committed patch" in client.get(f"/machines/patches/{entry.pk}/?tab=compensation").content.decode()
    answer = client.post(rollback, {"action": "write", "plan": "{}"}, follow=True)
    assert "bad" in [message.tags.split()[0] for message in answer.context["messages"]]
    committed = world.forced(entry, "committed")
    shown = client.get(f"/machines/patches/{committed.pk}/?tab=compensation")
    plan = shown.context["proposed"]
    client.post(rollback, {"action": "write", "plan": plan})
    client.post(rollback, {"action": "write", "plan": "no JSON"})
    assert client.post(rollback, {"action": "approve"}).status_code == 403
    client.force_login(people["supervisor"])
    shown = client.get(f"/machines/patches/{committed.pk}/?tab=compensation")
    assert shown.context["may_approve"]
    client.post(rollback, {"action": "approve", "digest": shown.context["digest"]})
    shown = client.get(f"/machines/patches/{committed.pk}/?tab=compensation")
    assert (shown.context["approved_by"], shown.context["may_request"]) == ("supervisor", True)
    assert [step.action for step in shown.context["steps"]] == ["plan_written", "plan_approved"]
    assert client.post(rollback, {"action": "nonsense"}).status_code == 400


def test_checkpoints_and_the_log_of_an_agent_job_are_shown(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["viewer"])
    job = world.created("PipelineJob")
    checkpoint.store(job.pk, "extract", {"row": 7})
    assert "&quot;row&quot;: 7" in client.get(f"/machines/pipeline-jobs/{job.pk}/?tab=checkpoints").content.decode()
    agent_job = world.created("AgentJob")
    events = client.get(f"/machines/agent-jobs/{agent_job.pk}/?tab=job_events")
    assert events.context["log"] or "No events" in events.content.decode()
    assert "worker_tasks" not in [name for name, *_rest in events.context["tabs"]]


def test_cancelling_a_run_shows_what_follows_before_it_happens(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["operator"])
    address = "/machines/runs/scene/transition/run_canceled/"
    preview = client.get(address, headers=HX)
    assert preview.context["caused"] == [
        {"entity_type": "task", "to_state": "cancelled", "count": 2},
        {"entity_type": "workstream", "to_state": "cancelled", "count": 1},
    ]
    assert Run.objects.get(pk="scene").state == "running"
    world.fire(Run.objects.get(pk="scene"), "run_canceled", actor=world.operator())
    assert "Would be refused" in client.get(address, headers=HX).content.decode()


@pytest.mark.parametrize("path", ["/machines/tasks/scene-t1/why/", "/audit/verify/", "/machines/tasks/~views/"])
def test_a_part_that_is_opened_alone_is_a_whole_page(
    path: str, people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["viewer"])
    alone, part = (client.get(path, headers=headers).content.decode() for headers in ({}, HX))
    assert "<html" in alone
    assert "<html" not in part


def test_the_address_of_the_preferences_leads_to_a_page(people: dict[str, Any], client: Client) -> None:
    client.force_login(people["viewer"])
    assert client.get("/preferences/", {"next": "/alerts/"})["Location"] == "/alerts/"
