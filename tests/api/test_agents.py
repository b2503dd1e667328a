"""The calls of agents: plans, workers, claims, reports, breakers, checkpoints, logs."""

import pytest
import time_machine

from statecore.journal import Event
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.records import Phase
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world

pytestmark = pytest.mark.django_db

PLAN = {
    "id": "r1",
    "phase": "PH-1",
    "workstreams": [
        {"id": "w1", "tasks": [{"id": "a"}, {"id": "b", "depends_on": ["a"], "payload": {"x": 1}}]},
        {"id": "w2", "depends_on": ["w1"], "tasks": [{"id": "c", "required_capabilities": ["git"]}]},
    ],
    "start": True,
}


def tasks(*given: dict) -> dict:
    return {"workstreams": [{"id": "w", "tasks": list(given)}]}


@pytest.fixture
def agent() -> Caller:
    return Caller("agent")


@pytest.fixture
def phase() -> Phase:
    return Phase.objects.create(id="PH-1")


def registered(agent: Caller, **fields: object) -> str:
    return str(expect_ok(agent.post("workers/", {"capabilities": ["git"], **fields}), 201)["id"])


def test_an_agent_runs_a_plan_to_its_end_over_rest(agent: Caller, phase: Phase) -> None:
    run = expect_ok(agent.post("runs/submit/", PLAN), 201)
    assert (run["id"], run["state"]) == ("r1", "running")
    assert (run["workstreams"], run["tasks"], run["gates"]) == (2, 3, 0)
    worker = registered(agent)
    order = []
    while tasks := expect_ok(agent.post(f"workers/{worker}/claim/"))["tasks"]:
        (task,) = tasks
        assert task["attempt"] == 1
        assert task["lease_expires_at"] > task["started_at"]
        order.append(task["id"])
        body = {"trigger": "execution_completed", "attempt": task["attempt"], "exit_code": 0, "output": "ok"}
        expect_ok(agent.post(f"tasks/{task['id']}/transitions/", body))
    assert order == ["a", "b", "c"]
    assert expect_ok(agent.get("runs/r1/"))["state"] == "succeeded"


@pytest.mark.parametrize(
    ("change", "place", "sentence"),
    [
        (tasks({"id": "a", "depends_on": ["zz"]}), "workstreams[0].tasks[0].depends_on", "zz"),
        (tasks({"id": "a"}, {"id": "a"}), "workstreams[0].tasks[1].id", "already"),
        (tasks({"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}), "plan", "cycle: a → b → a"),
        ({"phase": "nope"}, "phase", ""),
        ({"nonsense": 1}, "nonsense", ""),
        ({"start": "yes"}, "start", ""),
    ],
)
def test_an_invalid_plan_stores_nothing(change: dict, place: str, sentence: str, agent: Caller, phase: Phase) -> None:
    reply = expect_refusal(agent.post("runs/submit/", {**PLAN, **change}), 400, "invalid")
    assert sentence in " ".join(reply["errors"][place])
    assert Task.objects.count() == 0


def test_a_plan_whose_id_is_taken_is_a_conflict(agent: Caller, phase: Phase) -> None:
    expect_ok(agent.post("runs/submit/", PLAN), 201)
    expect_refusal(agent.post("runs/submit/", PLAN), 409, "duplicate_id")


def test_a_large_cascade_is_counted_and_its_first_events_are_returned(agent: Caller, phase: Phase) -> None:
    run = expect_ok(agent.post("runs/submit/", {**PLAN, **tasks(*({"id": f"t{n}"} for n in range(120)))}), 201)["id"]
    operator, cancel = Caller("operate"), {"trigger": "run_canceled", "request_id": "k"}
    reply, again = (expect_ok(operator.post(f"runs/{run}/transitions/", cancel)) for _ in range(2))
    cancelled = Event.objects.filter(to_state="cancelled").count()
    assert (len(reply["caused"]), reply["caused_count"]) == (100, cancelled)
    assert cancelled > 120
    assert again == reply


def test_a_worker_is_idle_as_soon_as_it_is_registered(agent: Caller) -> None:
    reply = expect_ok(agent.post("workers/", {"id": "w", "capabilities": ["a"], "max_concurrent_tasks": 3}), 201)
    assert (reply["id"], reply["state"], reply["version"]) == ("w", "idle", 2)
    assert [event["to_state"] for event in reply["caused"]] == ["idle"]


def test_a_heartbeat_returns_the_state_and_the_tasks_to_stop(agent: Caller, phase: Phase) -> None:
    worker = registered(agent)
    assert expect_ok(agent.post(f"workers/{worker}/heartbeat/")) == {"state": "idle", "commands": []}
    expect_ok(agent.post("runs/submit/", PLAN), 201)
    (task,) = expect_ok(agent.post(f"workers/{worker}/claim/"))["tasks"]
    expect_ok(Caller("operate").post(f"tasks/{task['id']}/transitions/", {"trigger": "user_cancelled"}))
    assert expect_ok(agent.post(f"workers/{worker}/heartbeat/"))["commands"] == [{"cancel": task["id"], "attempt": 1}]
    expect_refusal(agent.post("workers/nobody/heartbeat/"), 404, "not_found")


def test_a_heartbeat_that_lists_held_tasks_returns_those_to_stop(agent: Caller, phase: Phase) -> None:
    worker = registered(agent)
    expect_ok(agent.post("runs/submit/", PLAN), 201)
    (task,) = expect_ok(agent.post(f"workers/{worker}/claim/"))["tasks"]
    holds = {"holds": [{"task": task["id"], "attempt": 1}, {"task": "another", "attempt": 1}]}
    other = {"cancel": "another", "attempt": 1}
    assert expect_ok(agent.post(f"workers/{worker}/heartbeat/", holds))["commands"] == [other]
    expect_ok(Caller("operate").post(f"tasks/{task['id']}/transitions/", {"trigger": "user_cancelled"}))
    mine = {"cancel": task["id"], "attempt": 1}
    for _ in range(2):
        reply = expect_ok(agent.post(f"workers/{worker}/heartbeat/", holds))["commands"]
        assert sorted(reply, key=str) == sorted([other, mine], key=str)
    assert expect_ok(agent.post(f"workers/{worker}/heartbeat/", {"holds": []}))["commands"] == []
    for bad in ({}, {"task": "a\0", "attempt": 1}, {"task": "a\n", "attempt": 1}, {"task": "a", "attempt": -1}, "a"):
        expect_refusal(agent.post(f"workers/{worker}/heartbeat/", {"holds": [bad]}), 400, "invalid")


def test_a_claim_takes_at_most_the_requested_number(agent: Caller) -> None:
    parent = world.workstream()
    reactions_on = [world.task(workstream=parent) for _ in range(3)]
    assert reactions_on
    worker = registered(agent, max_concurrent_tasks=3)
    assert expect_ok(agent.post(f"workers/{worker}/claim/", {"max": 2})) == {"tasks": []}
    for bad in ({"max": 0}, {"max": "2"}, {"max": True}, {"wait": -1}, {"wait": 31}, {"nonsense": 1}):
        expect_refusal(agent.post(f"workers/{worker}/claim/", bad), 400, "invalid")
    for query in ("wait=31", "wait=-1", "wait=", "wait=1_0", "wait=nan", "until=5"):
        expect_refusal(agent.post(f"workers/{worker}/claim/?{query}"), 400, "invalid")


def test_only_a_claim_that_requests_it_in_the_body_is_passed_on_to_the_server_that_waits(agent: Caller) -> None:
    claim = f"workers/{registered(agent)}/claim/"

    assert agent.post(claim, {"wait": 5})["X-Accel-Redirect"] == "@live"
    assert "X-Accel-Redirect" not in agent.post(claim)
    assert "X-Accel-Redirect" not in agent.post(f"{claim}?wait=0", {"wait": 5})
    world.queued_task()
    assert "X-Accel-Redirect" not in agent.post(claim, {"wait": 5})


@pytest.mark.parametrize("how", ["transition", "claim"])
def test_a_failure_that_refuses_a_retry_ends_the_task(agent: Caller, phase: Phase, how: str) -> None:
    workstream = {"id": "ws", "tasks": [{"id": "a", "max_retries": 3}]}
    expect_ok(agent.post("runs/submit/", {"phase": "PH-1", "workstreams": [workstream], "start": True}), 201)
    worker = registered(agent)
    expect_ok(agent.post(f"workers/{worker}/claim/"))
    report = {"trigger": "execution_failed", "attempt": 1, "error": "the payload does not fit", "retry": False}

    if how == "transition":
        expect_ok(agent.post("tasks/a/transitions/", report))
    else:
        expect_ok(agent.post(f"workers/{worker}/claim/", {"reports": [{"task": "a", **report}]}))

    failed = Task.objects.get(pk="a")
    assert (failed.state, failed.retry_count, failed.last_error) == ("failed", 0, "the payload does not fit")


def test_a_report_and_the_next_claim_are_one_call(agent: Caller, phase: Phase) -> None:
    workstream = {"id": "ws", "tasks": [{"id": "a"}, {"id": "b"}]}
    expect_ok(agent.post("runs/submit/", {"phase": "PH-1", "workstreams": [workstream], "start": True}), 201)
    worker = registered(agent)
    claim = f"workers/{worker}/claim/"
    (task,) = expect_ok(agent.post(claim))["tasks"]
    report = {"task": task["id"], "attempt": 1, "trigger": "execution_completed", "exit_code": 0}

    for bad in ({**report, "trigger": "user_cancelled"}, {**report, "more": 1}, {"task": "a"}, "a", None):
        expect_refusal(agent.post(claim, {"reports": [bad]}), 400, "invalid")
    expect_refusal(agent.post(claim, {"reports": [report], "wait": 5}), 400, "invalid")
    expect_refusal(agent.post(f"{claim}?wait=5", {"reports": [report]}), 400, "invalid")
    expect_refusal(agent.post(claim, {"reports": [report, report]}), 400, "invalid")
    expect_refusal(Caller("agent").post(claim, {"reports": [report]}), 403, "not_the_holder")
    assert Task.objects.get(pk=task["id"]).state == "running"

    body = {"reports": [report], "request_id": "once"}
    reply = expect_ok(agent.post(claim, body))
    assert [(each["id"], each["changed"], each["refusal"]) for each in reply["reports"]] == [(task["id"], True, None)]
    assert len(reply["tasks"]) == 1
    assert expect_ok(agent.post(claim, body)) == reply  # a repeat gets the same answer and claims nothing

    late = expect_ok(agent.post(claim, {"reports": [{**report, "attempt": 7}]}))
    assert late["tasks"] == []
    assert late["reports"][0]["refusal"]["code"] == "lease_lost"


def test_a_lost_lease_is_refused_with_lease_lost(agent: Caller, phase: Phase) -> None:
    with time_machine.travel("2026-01-01", tick=False) as clock:
        expect_ok(agent.post("runs/submit/", PLAN), 201)
        worker = registered(agent)
        (task,) = expect_ok(agent.post(f"workers/{worker}/claim/"))["tasks"]
        wrong = {"trigger": "execution_failed", "attempt": 7, "error": "late"}
        reply = expect_refusal(agent.post(f"tasks/{task['id']}/transitions/", wrong), 409, "lease_lost")
        assert reply["detail"].count("attempt 7 has lost its lease") == 1  # though two transitions have this guard
        clock.shift(task["timeout_sec"] + 1)
        world.fire(Task.objects.get(pk=task["id"]), "timeout_exceeded")
        body = {"trigger": "execution_completed", "attempt": 0, "exit_code": 0}
        expect_refusal(agent.post(f"tasks/{task['id']}/transitions/", body), 409, "lease_lost")
        late = {**body, "attempt": task["attempt"]}
        for report in (late, {"trigger": "execution_failed", "attempt": task["attempt"], "error": "late"}):
            reply = expect_refusal(agent.post(f"tasks/{task['id']}/transitions/", report), 409, "lease_lost")
            assert (reply["state"], reply["unmet"][0]["detail"]) == (
                "retrying",
                "attempt 1 has lost its lease: it is retrying",
            )


def test_an_agent_reports_only_on_what_its_own_workers_hold(agent: Caller, phase: Phase) -> None:
    stranger = Caller("agent")
    expect_ok(agent.post("runs/submit/", PLAN), 201)
    worker = registered(agent)
    (task,) = expect_ok(agent.post(f"workers/{worker}/claim/"))["tasks"]
    body = {"trigger": "execution_completed", "attempt": task["attempt"], "exit_code": 0}
    reply = expect_refusal(stranger.post(f"tasks/{task['id']}/transitions/", body), 403, "not_the_holder")
    assert reply["holder"] == f"token:{agent.token.prefix}"
    expect_refusal(stranger.post(f"workers/{worker}/heartbeat/"), 403, "not_the_holder")
    expect_refusal(stranger.post(f"workers/{worker}/claim/"), 403, "not_the_holder")
    expect_refusal(
        stranger.post(f"workers/{worker}/transitions/", {"trigger": "shutdown_requested"}), 403, "not_the_holder"
    )
    expect_refusal(stranger.patch(f"workers/{worker}/", {"capabilities": []}), 403, "not_the_holder")
    expect_refusal(stranger.patch(f"tasks/{task['id']}/", {"priority": 9}), 403, "not_the_holder")
    breaker = expect_ok(Caller("operate").post("breakers/", {"id": "shared-tool"}), 201)["id"]
    expect_refusal(agent.patch(f"breakers/{breaker}/", {"failure_threshold": 99}), 403, "not_the_holder")
    assert Worker.objects.get(pk=worker).registered_by == agent.token.name
    expect_ok(agent.post(f"tasks/{task['id']}/transitions/", body))


def test_a_task_is_not_started_on_another_agents_worker(agent: Caller) -> None:
    worker = registered(agent)
    task = world.queued_task()
    body = {"trigger": "worker_started", "worker": worker}
    reply = expect_refusal(Caller("agent").post(f"tasks/{task.pk}/transitions/", body), 409, "guard_failed")
    assert "another agent" in reply["detail"]


def test_an_operators_token_does_an_agents_work_too(phase: Phase) -> None:
    both = Caller("operate")
    expect_ok(both.post("runs/submit/", PLAN), 201)
    worker = registered(both)
    (task,) = expect_ok(both.post(f"workers/{worker}/claim/"))["tasks"]
    body = {"trigger": "execution_completed", "attempt": task["attempt"], "exit_code": 0}
    event = expect_ok(both.post(f"tasks/{task['id']}/transitions/", body))["event"]
    assert (event["actor"], event["actor_kind"]) == (both.token.name, "agent")


def test_a_breaker_opens_after_failures_with_a_retry_time(agent: Caller) -> None:
    assert expect_ok(agent.post("breakers/git/acquire/"))["allowed"] is True
    for _ in range(5):
        reply = expect_ok(agent.post("breakers/git/report/", {"success": False, "error": "exit 128"}))
    assert reply["state"] == "OPEN"
    response = agent.post("breakers/git/acquire/")
    expect_refusal(response, 503, "breaker_open")
    assert 0 < int(response["Retry-After"]) <= 60
    expect_refusal(agent.post("breakers/git/report/", {"error": "x"}), 400, "invalid")
    expect_refusal(agent.post("breakers/a%20b/acquire/"), 404, "not_found")


def test_a_checkpoint_is_read_as_it_was_stored_until_it_is_cleared(agent: Caller) -> None:
    job = world.created("PipelineJob")
    place = f"pipeline-jobs/{job.pk}/checkpoints/mapping/"
    expect_refusal(agent.get(place), 404, "not_found")
    assert expect_ok(agent.put(place, {"row": 7})) == {"row": 7}
    stored = agent.get(place)
    assert expect_ok(stored) == {"row": 7}
    assert stored["Checkpoint-Job"] == job.pk
    assert agent.delete(place).status_code == 204
    expect_refusal(agent.get(place), 404, "not_found")
    expect_refusal(agent.put(place, [1]), 400, "invalid")
    expect_refusal(agent.put("pipeline-jobs/nope/checkpoints/a/", {}), 404, "not_found")
    expect_refusal(agent.put(f"pipeline-jobs/{job.pk}/checkpoints/a%20b/", {}), 400, "invalid")


def test_the_log_of_an_agent_job_is_appended_to_and_listed(agent: Caller) -> None:
    job = expect_ok(agent.post("agent-jobs/", {"agent": "x"}), 201)["id"]
    reply = expect_ok(agent.post(f"agent-jobs/{job}/events/", {"type": "job_running", "payload": {"worker": "w"}}), 201)
    assert (reply["changed"], reply["state"], reply["sequence"]) == (True, "running", 2)
    reply = expect_ok(agent.post(f"agent-jobs/{job}/events/", {"type": "tool_called", "payload": {"tool": "git"}}), 201)
    assert (reply["changed"], reply["sequence"]) == (False, 3)
    listed = expect_ok(agent.get(f"agent-jobs/{job}/events/?page_size=2"))
    assert [event["type"] for event in listed["results"]] == ["job_created", "job_running"]
    rest = expect_ok(agent.client.get(listed["next"], headers={"Authorization": f"Bearer {agent.text}"}))
    assert [event["type"] for event in rest["results"]] == ["tool_called"]
    expect_refusal(agent.post(f"agent-jobs/{job}/events/", {"type": "Bad Type"}), 400, "invalid")
    expect_refusal(agent.post(f"agent-jobs/{job}/events/", {"type": 7}), 400, "invalid")


# Patches


def with_a_diff(agent: Caller, phase: Phase) -> tuple[dict, str]:
    """Creates a task that the agent holds and a stored diff."""
    expect_ok(agent.post("runs/submit/", PLAN), 201)
    worker = registered(agent)
    (task,) = expect_ok(agent.post(f"workers/{worker}/claim/"))["tasks"]
    return task, expect_ok(agent.post("diffs/", {"diff": "--- a/x\n+++ b/x\n"}), 201)["id"]


def test_an_agent_hands_in_the_patch_of_its_task(agent: Caller, phase: Phase) -> None:
    task, diff = with_a_diff(agent, phase)
    body = {"task": task["id"], "attempt": 1, "patch": diff, "request_id": "once"}
    patch = expect_ok(agent.post("patches/", body), 201)
    assert (patch["state"], patch["workstream"], patch["patch"]) == ("created", "w1", diff)
    assert expect_ok(agent.post("patches/", body), 201)["id"] == patch["id"]
    assert expect_ok(agent.get(f"tasks/{task['id']}/"))["patch"] == patch["id"]
    event = world.last_event(Task.objects.get(pk=task["id"]))
    assert (event["kind"], event["metadata"]) == ("edited", {"changed": {"patch": f"None → {patch['id']!r}"}})

    report = {"trigger": "execution_completed", "attempt": 1, "exit_code": 0}
    assert expect_ok(agent.post(f"tasks/{task['id']}/transitions/", report))["entity"]["state"] == "validating"
    world.forced(PatchLedger.objects.get(), "verified")
    assert Task.objects.get(pk=task["id"]).state == "completed"


def test_an_agent_submits_patches_only_for_tasks_it_holds(agent: Caller, phase: Phase) -> None:
    task, diff = with_a_diff(agent, phase)
    given = {"task": task["id"], "attempt": 1, "patch": diff}
    expect_refusal(Caller("agent", name="another").post("patches/", given), 403, "not_the_holder")
    expect_refusal(agent.post("patches/", {**given, "attempt": 2}), 409, "lease_lost")
    expect_refusal(agent.post("patches/", {"task": task["id"], "patch": diff}), 409, "lease_lost")
    expect_refusal(agent.post("patches/", {**given, "task": "b", "attempt": 0}), 403, "not_the_holder")
    for bad in (
        {"task": "nobody"},
        {"task": 7},
        {"attempt": "1"},
        {"workstream": "w2"},
        {"task": None},
        {"patch": "none"},
    ):
        expect_refusal(agent.post("patches/", {**given, **bad}), 400, "invalid")
    expect_ok(Caller("operate").post(f"tasks/{task['id']}/transitions/", {"trigger": "user_cancelled"}))
    expect_refusal(agent.post("patches/", given), 409, "lease_lost")
    expect_refusal(Caller("operate").post("patches/", given), 409, "terminal_state")
    assert not PatchLedger.objects.exists()
    assert Task.objects.get(pk=task["id"]).patch_id is None


def test_a_task_waits_for_the_last_patch_that_was_handed_in(agent: Caller, phase: Phase) -> None:
    task, diff = with_a_diff(agent, phase)
    given = {"task": task["id"], "attempt": 1, "patch": diff}
    expect_ok(agent.post("patches/", given), 201)
    last = expect_ok(Caller("operate").post("patches/", given), 201)
    assert Task.objects.get(pk=task["id"]).patch_id == last["id"]


def test_a_report_may_say_whether_the_tool_failed(agent: Caller, phase: Phase) -> None:
    tasks = [{"id": name, "tool": "aider", "max_retries": 0} for name in "abcd"]
    workstreams = [{"id": "ws", "tasks": tasks}]
    expect_ok(agent.post("runs/submit/", {"phase": "PH-1", "workstreams": workstreams, "start": True}), 201)
    claim = f"workers/{registered(agent)}/claim/"
    (task,) = expect_ok(agent.post(claim))["tasks"]
    assert task["tool"] == "aider"
    failures = []
    for tool_failed in (True, None, False):
        report = {"task": task["id"], "attempt": 1, "trigger": "execution_failed", "error": "broken"}
        (task,) = expect_ok(agent.post(claim, {"reports": [{**report, "tool_failed": tool_failed}]}))["tasks"]
        failures.append(expect_ok(agent.get("breakers/aider/"))["failure_count"])
    assert failures == [1, 1, 0]
    last = {"trigger": "execution_failed", "attempt": 1, "error": "broken"}
    expect_refusal(agent.post(f"tasks/{task['id']}/transitions/", {**last, "tool_failed": "yes"}), 400, "invalid")
    expect_ok(agent.post(f"tasks/{task['id']}/transitions/", {**last, "tool_failed": None}))
    assert expect_ok(Caller("operate").patch("breakers/aider/", {"concurrency_limit": 4}))["concurrency_limit"] == 4
