"""Attack: the token of an agent has its own patch committed without a test (issue 15, attack 1)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from statecore.executors import patches
from statecore.machines.patch_ledger import PatchLedger
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.executors.support import executing_workstream, python
from tests.executors.work_tree import WorkTree, diff_replacing
from tests.support import world

pytestmark = pytest.mark.django_db

CHECKS = {"format_passed": True, "scope_passed": True, "constraints_passed": True}
MERGE: list[dict[str, Any]] = [
    {"trigger": "validation_passed", **CHECKS},
    {"trigger": "accepted_for_merge"},
    {"trigger": "apply_succeeded"},
    {"trigger": "tests_passed"},
    {"trigger": "commit_succeeded", "commit_sha": "a" * 40},
]


def submit(diff_author: Caller, submitter: Caller | None = None) -> str:
    """Submits a patch; returns the path of its transitions."""
    diff = expect_ok(diff_author.post("diffs/", {"diff": diff_replacing("two", "evil")}), 201)
    submitter = submitter or diff_author
    body = {"patch": diff["id"], "workstream": executing_workstream(run=world.run_by(submitter.token.as_agent())).pk}
    return f"patches/{expect_ok(submitter.post('patches/', body), 201)['id']}/transitions/"


@pytest.fixture
def repository(tmp_path: Path, settings: Any) -> WorkTree:
    tree = WorkTree(tmp_path / "tree")
    settings.STATECORE_HOME = tmp_path / "home"
    settings.STATECORE_HOME.mkdir()
    settings.STATECORE_REPOSITORY = tree.path
    settings.STATECORE_CHECKOUT_DIR = tmp_path / "checkouts"
    settings.STATECORE_SANDBOX = "off"
    settings.STATECORE_GATE_COMMANDS = (sys.executable,)
    settings.STATECORE_PATCH_TEST_COMMAND = python("raise SystemExit('evil' in open('hello.txt').read())")
    return tree


@pytest.mark.parametrize("scope", ["agent", "operate", "override", "integrate"])
def test_a_token_commits_untested_code_where_executors_run(repository: WorkTree, scope: str) -> None:
    author = Caller("agent")
    path = submit(author)
    attacker = Caller(scope, user=author.user)
    for report in MERGE:
        assert attacker.post(path, report).status_code in (403, 409)
    patches.run_due()
    entry = PatchLedger.objects.get()
    assert (entry.state, entry.validation_tests_passed) == ("quarantined", False)
    assert repository.log() == ["The beginning"]
    assert {event["actor_kind"] for event in world.events_of(entry)[1:]} == {"system"}


@pytest.mark.parametrize("scope", ["agent", "operate", "override", "integrate"])
def test_a_token_moves_a_patch_beside_the_executors(repository: WorkTree, scope: str) -> None:
    path, attacker = submit(Caller("agent")), Caller(scope)
    for report in MERGE:
        # An operator may accept a validated patch, which the executors then test.
        if report["trigger"] != "accepted_for_merge" or scope in ("agent", "integrate"):
            expect_refusal(attacker.post(path, report), 403, "permission_denied")
        fields = {name: value for name, value in report.items() if name != "trigger"}
        world.fire(PatchLedger.objects.get(), report["trigger"], **fields)


def test_an_agent_moves_a_patch_where_no_executors_run() -> None:
    author = Caller("agent")
    path = submit(author)
    for caller in (author, Caller("agent"), Caller("operate"), Caller("override")):
        refusal = expect_refusal(caller.post(path, MERGE[0]), 403, "permission_denied")
        assert refusal["required"] == ["integrator", "system"]


def test_an_author_verifies_the_own_patch_with_another_token() -> None:
    author, submitter = Caller("agent"), Caller("agent")
    path = submit(author, submitter)
    for account in (author, submitter):
        same = Caller("integrate", user=account.user)
        expect_refusal(same.post(path, MERGE[0]), 403, "same_person")
    assert PatchLedger.objects.get().state == "created"


def test_an_integrator_of_another_account_moves_the_patch() -> None:
    path, integrator = submit(Caller("agent")), Caller("integrate")
    for report in MERGE:
        answer = expect_ok(integrator.post(path, report))
    entity, event = answer["entity"], answer["event"]
    assert (entity["state"], event["actor_kind"]) == ("committed", "integrator")
    assert (entity["holder"], event["identity"]) == (f"token:{integrator.token.prefix}",) * 2


def test_the_integrator_that_applied_a_patch_reports_its_tests() -> None:
    path, first, second = submit(Caller("agent")), Caller("integrate"), Caller("integrate")
    for report, caller in zip(MERGE[:3], (first, second, first), strict=True):
        expect_ok(caller.post(path, report))
    expect_refusal(second.post(path, MERGE[3]), 403, "not_the_holder")
    expect_ok(first.post(path, MERGE[3]))


@pytest.mark.usefixtures("machines_in_isolation")
def test_a_retried_patch_keeps_its_author() -> None:
    author = Caller("agent")
    path = submit(author)
    expect_ok(Caller("integrate").post(path, {"trigger": "validation_failed", "error": "malformed"}))
    retried = expect_ok(Caller("operate").post(path.replace("transitions", "retry")), 201)
    assert retried["author"] == f"token:{author.token.prefix}"
    again = f"patches/{retried['id']}/transitions/"
    expect_refusal(Caller("integrate", user=author.user).post(again, MERGE[0]), 403, "same_person")


def test_an_author_is_not_a_field_that_can_be_set() -> None:
    author = Caller("agent")
    body = {"diff": diff_replacing("two", "evil"), "author": "user:1"}
    expect_refusal(author.post("diffs/", body), 400, "invalid")
    patch, workstream = world.patch(), executing_workstream()
    forged = {"patch": patch.patch_id, "workstream": workstream.pk, "author": "user:1"}
    expect_refusal(author.post("patches/", forged), 400, "invalid")


def test_an_agent_replaces_its_patch_after_its_report() -> None:
    agent, task = Caller("agent"), world.queued_task(workstream=executing_workstream(), gates=[world.gate().pk])
    worker = expect_ok(agent.post("workers/", {"capabilities": []}), 201)["id"]
    expect_ok(agent.post(f"workers/{worker}/claim/"))
    done = {"trigger": "execution_completed", "attempt": 1, "exit_code": 0}
    assert expect_ok(agent.post(f"tasks/{task.pk}/transitions/", done))["entity"]["state"] == "validating"
    diff = expect_ok(agent.post("diffs/", {"diff": diff_replacing("two", "evil")}), 201)["id"]
    late = {"task": task.pk, "attempt": 1, "patch": diff}
    expect_refusal(agent.post("patches/", late), 409, "lease_lost")
    assert not PatchLedger.objects.exists()


# Gates


def test_an_agent_starts_and_passes_the_gate_of_an_operator() -> None:
    path = f"gates/{world.gate().pk}/transitions/"
    for scope in ("agent", "operate", "override"):
        for report in ({"trigger": "gate_started"}, {"trigger": "gate_passed", "exit_code": 0}):
            assert Caller(scope).post(path, report).status_code in (403, 409)
    integrator, other = Caller("integrate"), Caller("integrate")
    expect_ok(integrator.post(path, {"trigger": "gate_started"}))
    expect_refusal(Caller("agent").post(path, {"trigger": "gate_passed", "exit_code": 0}), 403, "permission_denied")
    expect_refusal(other.post(path, {"trigger": "gate_passed", "exit_code": 0}), 403, "not_the_holder")
    assert expect_ok(integrator.post(path, {"trigger": "gate_passed", "exit_code": 0}))["changed"]


def test_a_token_passes_a_gate_where_executors_run(settings: Any) -> None:
    settings.STATECORE_GATE_COMMANDS = (sys.executable,)
    path = f"gates/{world.gate().pk}/transitions/"
    for scope in ("agent", "operate", "override", "integrate"):
        expect_refusal(Caller(scope).post(path, {"trigger": "gate_started"}), 403, "permission_denied")


@pytest.mark.parametrize("as_exit_gate", [True, False], ids=["exit gate", "gate of the workstream"])
def test_an_account_passes_the_gate_of_its_own_work(as_exit_gate: bool) -> None:
    agent = Caller("agent", user=User.objects.create_superuser("author"))
    workstream = executing_workstream()
    gate = world.gate() if as_exit_gate else world.gate(workstream=workstream)
    task = world.queued_task(workstream=workstream, **{"gates": [gate.pk]} if as_exit_gate else {})
    worker = expect_ok(agent.post("workers/", {"capabilities": []}), 201)["id"]
    (claimed,) = expect_ok(agent.post(f"workers/{worker}/claim/"))["tasks"]
    assert claimed["id"] == task.pk
    done = {"trigger": "execution_completed", "attempt": 1, "exit_code": 0}
    expect_ok(agent.post(f"tasks/{task.pk}/transitions/", done))
    world.forced(workstream, "validating")
    path = f"gates/{gate.pk}/transitions/"
    expect_refusal(Caller("integrate", user=agent.user).post(path, {"trigger": "gate_started"}), 403, "same_person")
    expect_ok(Caller("integrate").post(path, {"trigger": "gate_started"}))


def test_an_integrator_does_no_other_work() -> None:
    integrator = Caller("integrate")
    for path in ("workers/", "pipeline-jobs/", "gates/", "patches/", "diffs/", "runs/submit/", "phases/"):
        refusal = expect_refusal(integrator.post(path, {}), 403, "permission_denied")
        assert refusal["required"] == "agent"
    expect_refusal(integrator.post("tasks/t/transitions/", {"trigger": "worker_started"}), 403, "permission_denied")
    expect_ok(integrator.get("patches/"))


def test_explain_names_the_holder_and_the_account_that_may_not_judge() -> None:
    author = Caller("agent")
    path = submit(author).replace("transitions", "explain")

    def codes(caller: Caller) -> set[str]:
        transitions = expect_ok(caller.get(path))["transitions"]
        return {reason["code"] for each in transitions for reason in each["unmet"]}

    assert codes(Caller("integrate", user=author.user)) == {"same_person"}
    assert codes(author) == {"permission_denied"}
    assert codes(Caller("integrate")) == set()
