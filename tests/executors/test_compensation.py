"""Rolling back a committed patch: the plan, its approval, each step, and failures that change nothing."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db import IntegrityError, connection, transaction

from statecore.executors import compensation, compensation_plan, patches, repository
from statecore.executors.errors import RepositoryBusy, RepositoryNotUsable, RollbackFailed
from statecore.executors.rollback import steps_of
from statecore.kernel.actors import THE_SYSTEM, Channel
from statecore.kernel.refusals import (
    GuardFailed,
    Invalid,
    InvalidTransition,
    NotFound,
    PermissionDenied,
    StaleVersion,
)
from statecore.machines.patch_ledger import PatchLedger
from statecore.records import CompensationStep
from tests.executors.support import gate, patch, python, reload
from tests.executors.work_tree import HELLO, diff_replacing
from tests.support import world

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.django_db]

REASON = "regression in counting"
apprise_loads_old_modules = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
IS_BACK = "import pathlib, sys; sys.exit('zwei' in pathlib.Path('hello.txt').read_text())"


@pytest.fixture
def committed(work_tree):
    entry = patch(diff_replacing("two", "zwei"))
    patches.run_due(wait=0)
    return reload(entry)


def make_revert_plan(entry, *more, **validation):
    return {
        "compensation_type": "git_revert",
        "actions": [{"action": "git_revert", "commit_sha": entry.commit_sha, "branch": "main"}, *more],
        "validation": {"required_gates": [], "verify_clean_state": True, **validation},
    }


def write_and_approve(entry, wanted=None):
    compensation.write_plan(entry.pk, wanted or make_revert_plan(entry), world.operator("ada"))
    compensation.approve(entry.pk, world.operator("bob"))
    return entry


def execute(entry, actor=None):
    return compensation.execute(entry.pk, actor or world.operator("cleo"), REASON, wait=0)


def summarize_steps(entry):
    return [(step.action, step.ok) for step in steps_of(entry.pk)]


def test_an_approved_plan_reverts_the_commit_and_rolls_the_patch_back(committed, work_tree) -> None:
    before = work_tree.head()

    rolled_back = execute(write_and_approve(committed))

    assert (rolled_back.state, rolled_back.rollback_reason) == ("rolled_back", REASON)
    assert (work_tree.read(), work_tree.is_clean()) == (HELLO, True)
    assert work_tree.log()[:2] == [f"Revert: {REASON}", f"Patch {committed.patch_id}"]
    assert work_tree.git("rev-parse", "HEAD^") == before
    assert f"Statecore-Rollback: {committed.pk}" in work_tree.git("log", "-1", "--format=%B")
    event = world.last_event(committed)
    assert (event["trigger"], event["operator"], event["severity"]) == ("rollback_requested", "cleo", "critical")
    assert event["metadata"]["revert_commit"] == work_tree.head()


def test_each_step_is_recorded_with_actor_and_time(committed, commands, settings) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python("import os; print(os.environ['STATECORE_TEST_SUITE'])")
    gate(IS_BACK, gate_type="LINT", workstream=committed.workstream)
    tests = {"action": "run_tests", "test_suite": "regression", "required": True}

    execute(write_and_approve(committed, make_revert_plan(committed, tests, required_gates=["LINT"])))

    assert summarize_steps(committed) == [
        (action, True)
        for action in ("plan_written", "plan_approved", "started", "git_revert", "run_tests", "required_gate", "commit",
                       "verify_revert", "verify_clean_state", "rolled_back")
    ]  # fmt: skip
    written, approval, started, _revert, tested, *_, last = (step.as_dict() for step in steps_of(committed.pk))
    assert (written["actor"], approval["actor"], started["actor"]) == ("ada", "bob", "cleo")
    assert approval["details"]["digest"] == compensation_plan.digest(written["details"]["plan"])
    assert "regression\n" in tested["output"]
    assert started["execution"] == last["execution"] != written["execution"]
    assert tested["started_at"] <= tested["ended_at"]


def test_steps_cannot_be_changed_or_added_directly(committed) -> None:
    write_and_approve(committed)
    for forbidden in (
        lambda: CompensationStep.objects.update(ok=False),
        lambda: CompensationStep.objects.all().delete(),
        lambda: CompensationStep.objects.create(
            entry=committed, action="plan_approved", ok=True, actor="eve",
            started_at=committed.created_at, ended_at=committed.created_at,
        ),
    ):  # fmt: skip
        with pytest.raises(IntegrityError), transaction.atomic():
            forbidden()


def test_failing_tests_leave_the_patch_committed_and_the_tree_unchanged(
    committed, work_tree, commands, settings
) -> None:
    fail = "import sys; open('litter', 'w'); open('hello.txt', 'a').write('x'); print('2 failed'); sys.exit(1)"
    settings.STATECORE_PATCH_TEST_COMMAND = python(fail)
    before = work_tree.head()
    write_and_approve(
        committed, make_revert_plan(committed, {"action": "run_tests", "test_suite": "all", "required": True})
    )

    with pytest.raises(RollbackFailed, match=r"stays committed: run_tests: .* ended with exit code 1"):
        execute(committed)

    assert reload(committed).state == "committed"
    assert (work_tree.head(), work_tree.is_clean()) == (before, True)
    assert "zwei" in work_tree.read()
    assert summarize_steps(committed)[2:] == [
        ("started", True), ("git_revert", True), ("run_tests", False), ("undone", True), ("failed", False)
    ]  # fmt: skip
    failed = steps_of(committed.pk).get(action="run_tests")
    assert "2 failed" in failed.output
    settings.STATECORE_PATCH_TEST_COMMAND = python(IS_BACK)
    assert execute(committed).state == "rolled_back", "the rollback may be retried"


def test_an_optional_step_may_fail(committed, work_tree) -> None:
    tests = {"action": "run_tests", "test_suite": "all"}
    write_and_approve(
        committed, make_revert_plan(committed, tests, {"action": "notify", "channels": ["slack"], "recipients": []})
    )

    assert execute(committed).state == "rolled_back"

    assert ("run_tests", False) in summarize_steps(committed)
    assert steps_of(committed.pk).get(action="notify").error == "not notified: STATECORE_NOTIFY_URLS is empty"


@pytest.mark.parametrize(
    ("validation", "error"),
    [
        ({"required_gates": ["SECURITY"]}, "has no gate of type SECURITY"),
        ({"required_gates": ["UNIT"]}, "ended with exit code 3"),
    ],
)
def test_a_missing_or_failed_required_gate_undoes_the_rollback(
    committed, work_tree, commands, validation, error
) -> None:
    gate("import sys; sys.exit(3)", gate_type="UNIT", workstream=committed.workstream)
    before = work_tree.head()
    write_and_approve(committed, make_revert_plan(committed, **validation))

    with pytest.raises(RollbackFailed, match=error):
        execute(committed)

    assert reload(committed).state == "committed"
    assert (work_tree.head(), work_tree.is_clean()) == (before, True)


def test_a_step_that_needs_a_command_fails_while_commands_are_off(committed, settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ()
    gate(gate_type="UNIT", workstream=committed.workstream)
    write_and_approve(committed, make_revert_plan(committed, required_gates=["UNIT"]))

    with pytest.raises(RollbackFailed, match="commands are disabled: STATECORE_GATE_COMMANDS is empty"):
        execute(committed)


def test_a_conflicting_revert_fails_and_changes_nothing(committed, work_tree) -> None:
    work_tree.write("hello.txt", "one\nZWEI\nthree\n")
    before = work_tree.commit("Louder")
    write_and_approve(committed)

    with pytest.raises(RollbackFailed, match="could not revert"):
        execute(committed)

    assert (work_tree.head(), work_tree.is_clean(), reload(committed).state) == (before, True, "committed")


def test_a_branch_other_than_the_plans_is_not_changed(committed, work_tree) -> None:
    work_tree.git("switch", "--quiet", "--create", "other")
    write_and_approve(committed)

    with pytest.raises(RollbackFailed, match="the repository is on other, not on main"):
        execute(committed)


def test_a_rollback_requires_an_approved_plan(committed, work_tree) -> None:
    before = work_tree.head()

    with pytest.raises(GuardFailed, match="requires a compensation plan"):
        execute(committed)
    compensation.write_plan(committed.pk, make_revert_plan(committed), world.operator())
    with pytest.raises(GuardFailed, match="not approved"):
        execute(committed)

    assert (work_tree.head(), reload(committed).state) == (before, "committed")
    assert summarize_steps(committed) == [("plan_written", True)]


def test_a_new_plan_requires_a_new_approval(committed) -> None:
    write_and_approve(committed)

    compensation.write_plan(committed.pk, make_revert_plan(committed, verify_clean_state=False), world.operator())

    with pytest.raises(GuardFailed, match="not approved"):
        execute(committed)


def test_an_approval_applies_only_to_the_plan_that_was_read(committed) -> None:
    read = compensation.write_plan(committed.pk, make_revert_plan(committed), world.operator()).details["digest"]
    compensation.write_plan(committed.pk, make_revert_plan(committed, verify_clean_state=False), world.operator())

    with pytest.raises(StaleVersion, match="changed since it was read"):
        compensation.approve(committed.pk, world.operator(), digest=read)

    assert reload(committed).compensation_approved_by == ""


def test_a_second_person_approves_where_the_policy_requires_it(committed, settings) -> None:
    settings.STATECORE_SECOND_PERSON = frozenset({"patch_ledger->rolled_back"})
    rights = ("operate_patchledger", "override_patchledger")
    ada, bob = world.operator_with(*rights, name="ada"), world.operator_with(*rights, name="bob")
    compensation.write_plan(committed.pk, make_revert_plan(committed), ada)

    with pytest.raises(PermissionDenied, match="another operator than its author"):
        compensation.approve(committed.pk, dataclasses.replace(ada, name="someone-else"))
    compensation.approve(committed.pk, bob)

    assert reload(committed).compensation_approved_by == "bob"


def test_actors_without_permission_are_refused(committed) -> None:
    for actor in (world.AGENT, world.operator_with("view_patchledger", name="eve")):
        with pytest.raises(PermissionDenied):
            compensation.write_plan(committed.pk, make_revert_plan(committed), actor)
    compensation.write_plan(committed.pk, make_revert_plan(committed), world.operator())
    for actor in (world.AGENT, THE_SYSTEM, world.operator_with("operate_patchledger", name="dan")):
        with pytest.raises(PermissionDenied):
            compensation.approve(committed.pk, actor)
    compensation.approve(committed.pk, world.operator())
    with pytest.raises(PermissionDenied):
        execute(committed, world.AGENT)


def test_only_a_committed_patch_has_a_plan(work_tree) -> None:
    entry = patch(diff_replacing("two", "zwei"))

    for action in (
        lambda: compensation.write_plan(entry.pk, {}, world.operator()),
        lambda: compensation.approve(entry.pk, world.operator()),
        lambda: compensation.default_plan(entry),
        lambda: execute(entry),
    ):
        with pytest.raises(InvalidTransition, match="only committed patches"):
            action()
    with pytest.raises(NotFound):
        compensation.write_plan("unknown", {}, world.operator())


def test_a_default_plan_can_be_read_after_a_concurrent_rollback(committed) -> None:
    row = PatchLedger.objects.get(pk=committed.pk)
    assert execute(write_and_approve(committed)).state == "rolled_back"

    assert compensation.default_plan(row)["compensation_type"] == "git_revert"


def test_a_rollback_requires_a_reason(committed) -> None:
    write_and_approve(committed)

    with pytest.raises(Invalid, match="must say why"):
        compensation.execute(committed.pk, world.operator(), "  ")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"compensation_type": "pray"}, "compensation_type"),
        ({"compensation_type": "skip"}, "actions"),
        ({"compensation_type": []}, "compensation_type"),
        ({"actions": "all"}, "actions"),
        ({"actions": []}, "actions"),
        ({"actions": [{"action": "rm"}]}, "actions.0"),
        ({"actions": [{"action": ["rm"]}]}, "actions.0"),
        ({"actions": ["git_revert"]}, "actions.0"),
        ({"actions": [{"action": "git_revert", "commit_sha": "0" * 40}]}, "actions.0.commit_sha"),
        ({"actions": [{"action": "git_revert", "commit_sha": None}]}, "actions.0.commit_sha"),
        ({"actions": [{"action": "run_tests", "test_suite": "--evil"}]}, "actions.0.test_suite"),
        ({"actions": [{"action": "run_tests", "test_suite": "a", "required": 1}]}, "actions.0.required"),
        ({"actions": [{"action": "run_tests", "test_suite": "a", "shell": "x"}]}, "actions.0.shell"),
        ({"actions": [{"action": "notify", "channels": "slack"}]}, "actions.0.channels"),
        ({"actions": [{"action": "notify", "recipients": [7]}]}, "actions.0.recipients"),
        ({"actions": [{"action": "notify"}] * 21}, "actions"),
        ({"validation": []}, "validation"),
        ({"validation": {"required_gates": ["unit"]}}, "validation.required_gates"),
        ({"validation": {"required_gates": [["UNIT"]]}}, "validation.required_gates"),
        ({"validation": {"required_gates": ["UNIT", "UNIT"]}}, "validation.required_gates"),
        ({"validation": {"verify_clean_state": "yes"}}, "validation.verify_clean_state"),
        ({"validation": {"gates": []}}, "validation.gates"),
        ({"more": 1}, "more"),
    ],
)
def test_an_invalid_plan_is_refused_with_the_field_name(change, field) -> None:
    entry = PatchLedger(commit_sha="abcdef1234")
    compensation_plan.read_plan(make_revert_plan(entry), entry.commit_sha)

    with pytest.raises(Invalid) as refusal:
        compensation_plan.read_plan({**make_revert_plan(entry), **change}, entry.commit_sha)

    assert field in refusal.value.facts["errors"]


@pytest.mark.parametrize("given", [None, [], "revert", {}, {"actions": float("nan")}])
def test_a_plan_that_is_not_an_object_is_refused(given) -> None:
    with pytest.raises(Invalid):
        compensation_plan.read_plan(given, "abcdef1234")


def test_a_refused_plan_is_not_stored(committed) -> None:
    with pytest.raises(Invalid):
        compensation.write_plan(committed.pk, {"compensation_type": "git_revert"}, world.operator())

    assert summarize_steps(committed) == []


def test_the_default_plan_works(committed, commands, settings) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python(IS_BACK)
    gate(IS_BACK, gate_type="UNIT", workstream=committed.workstream)
    found = compensation.default_plan(PatchLedger.objects.get(pk=committed.pk))

    assert found["validation"] == {"required_gates": ["UNIT"], "verify_clean_state": True}
    assert [action["action"] for action in found["actions"]] == ["git_revert", "run_tests"]
    assert execute(write_and_approve(committed, found)).state == "rolled_back"


def test_a_busy_or_dirty_repository_is_not_changed(committed, work_tree) -> None:
    write_and_approve(committed)
    with repository.locked(), pytest.raises(RepositoryBusy):
        execute(committed)
    work_tree.write("notes.txt", "mine")
    with pytest.raises(RepositoryNotUsable, match=r"notes\.txt"):
        execute(committed)

    assert summarize_steps(committed) == [("plan_written", True), ("plan_approved", True)]


def test_a_plan_changed_during_its_execution_is_not_completed(committed, work_tree, monkeypatch) -> None:
    before = work_tree.head()
    write_and_approve(committed)
    commit = repository.Repository.commit

    def change_plan_and_commit(opened, *given):
        write_and_approve(committed, make_revert_plan(committed, verify_clean_state=False))
        return commit(opened, *given)

    monkeypatch.setattr(repository.Repository, "commit", change_plan_and_commit)
    with pytest.raises(RollbackFailed, match="plan was changed"):
        execute(committed)

    assert (work_tree.head(), work_tree.is_clean(), reload(committed).state) == (before, True, "committed")


class Mailbox(ThreadingHTTPServer):
    def __init__(self) -> None:
        self.received: list[dict] = []
        self.on_request: Callable[[], None] | None = None
        super().__init__(("127.0.0.1", 0), MailboxHandler)


class MailboxHandler(BaseHTTPRequestHandler):
    timeout = 10  # for a client that connects and sends nothing

    def do_POST(self) -> None:
        self.server.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        on_request, self.server.on_request = self.server.on_request, None
        if on_request:
            on_request()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_) -> None: ...


@pytest.fixture
def mailbox():
    with Mailbox() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@apprise_loads_old_modules
def test_notifications_are_sent_through_apprise(committed, settings, mailbox) -> None:
    settings.STATECORE_NOTIFY_URLS = (f"json://127.0.0.1:{mailbox.server_port}/",)
    notice = {"action": "notify", "channels": ["slack"], "recipients": ["dev-team"], "required": True}

    execute(write_and_approve(committed, make_revert_plan(committed, notice)))

    (letter,) = mailbox.received
    assert letter["title"] == f"Patch {committed.pk} is being rolled back"
    assert REASON in letter["message"]
    assert "dev-team, slack" in letter["message"]


@apprise_loads_old_modules
def test_a_notice_is_sent_after_the_gates_and_the_commit(committed, settings, mailbox, work_tree, commands) -> None:
    settings.STATECORE_NOTIFY_URLS = (f"json://127.0.0.1:{mailbox.server_port}/",)
    gate(gate_type="UNIT", workstream=committed.workstream)
    plan = make_revert_plan(committed, required_gates=["UNIT"])
    plan["actions"].insert(0, {"action": "notify"})
    heads: list[str] = []
    mailbox.on_request = lambda: heads.append(work_tree.head())

    done = execute(write_and_approve(committed, plan))

    assert heads == [done.revert_commit]
    assert done.revert_commit in mailbox.received[0]["message"]
    assert [action for action, _ok in summarize_steps(committed)][2:] == [
        "started", "git_revert", "required_gate", "commit", "verify_revert", "verify_clean_state", "notify",
        "rolled_back",
    ]  # fmt: skip


@apprise_loads_old_modules
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("reached", [True, False])
def test_a_plan_of_notifications_is_executed_by_one_of_two_workers(
    committed, work_tree, settings, mailbox, monkeypatch, reached
) -> None:
    monkeypatch.setattr(compensation, "LOCK_TIMEOUT", 0.0)
    nowhere = () if reached else ("json://127.0.0.1:1/",)
    settings.STATECORE_NOTIFY_URLS = (f"json://127.0.0.1:{mailbox.server_port}/", *nowhere)
    write_and_approve(
        committed, {"compensation_type": "manual_fix", "actions": [{"action": "notify", "required": True}]}
    )
    work_tree.write("hello.txt", HELLO)
    compensation.request(committed.pk, stored_operator(), REASON, revert_commit=work_tree.commit("Take it back"))

    def other_worker() -> None:
        compensation.run_due()
        connection.close()

    mailbox.on_request = other_worker
    requests = compensation.find_due()
    assert [compensation._run(each) for each in requests] == [reached]
    assert [compensation._run(each) for each in requests] == [False], "a worker that read the request earlier"

    assert len(mailbox.received) == 1
    assert [action for action, _ok in summarize_steps(committed)][3:] == [
        "started", "verify_revert", "notify", *(["rolled_back"] if reached else ["undone", "failed"])
    ]  # fmt: skip


@apprise_loads_old_modules
def test_a_failed_required_notification_undoes_the_rollback_and_logs_no_secret(committed, settings, caplog) -> None:
    settings.STATECORE_NOTIFY_URLS = ("json://user:hush@127.0.0.1:1/",)
    write_and_approve(committed, make_revert_plan(committed, {"action": "notify", "required": True}))

    with pytest.raises(RollbackFailed, match="could be reached"):
        execute(committed)

    assert "hush" not in caplog.text
    assert not any("hush" in str(step.as_dict()) for step in steps_of(committed.pk))


def stored_operator(name="cleo"):
    return world.operator_with("operate_patchledger", name=name)


def test_a_requested_rollback_is_executed_once(committed) -> None:
    compensation.request(write_and_approve(committed).pk, stored_operator(), REASON)

    assert compensation.run_due() == 1
    assert compensation.run_due() == 0

    assert reload(committed).state == "rolled_back"
    assert world.last_event(committed)["operator"] == "cleo"
    assert world.last_event(committed)["channel"] == Channel.CONSOLE


def test_a_request_replaces_the_one_before_it(committed) -> None:
    entry, operator = write_and_approve(committed), stored_operator()
    compensation.request(entry.pk, operator, REASON, revert_commit=entry.commit_sha)
    compensation.request(entry.pk, operator, "the commit was wrong")

    assert compensation.run_due() == 1

    assert reload(committed).state == "rolled_back"
    assert world.last_event(committed)["reason"] == "the commit was wrong"


def test_a_failed_rollback_is_not_retried_automatically(committed, work_tree) -> None:
    write_and_approve(committed, make_revert_plan(committed, required_gates=["LINT"]))
    compensation.request(committed.pk, stored_operator(), REASON)

    assert compensation.run_due() == 0
    assert compensation.run_due() == 0

    assert [action for action, _ok in summarize_steps(committed)].count("started") == 1


def test_a_rollback_fails_if_the_requester_lost_the_permission(committed) -> None:
    actor = stored_operator()
    compensation.request(write_and_approve(committed).pk, actor, REASON)
    from django.contrib.auth.models import User

    User.objects.get(username="cleo").user_permissions.clear()

    assert compensation.run_due() == 0

    assert reload(committed).state == "committed"
    assert steps_of(committed.pk).last().error == "cleo may not operate patch_ledger rows"


def test_a_rollback_waits_for_a_busy_repository(committed, monkeypatch) -> None:
    monkeypatch.setattr(compensation, "LOCK_TIMEOUT", 0.0)
    compensation.request(write_and_approve(committed).pk, stored_operator(), REASON)

    with repository.locked():
        assert compensation.run_due() == 0
    assert compensation.run_due() == 1
