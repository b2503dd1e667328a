"""Taking a committed patch back: planned, approved, executed step by step, or left as it was."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db import IntegrityError, connection, transaction

from statecore.executors import compensation, patches, plan, repository, steps
from statecore.executors.execution import RollbackFailed
from statecore.executors.repository import Busy, NotUsable
from statecore.kernel.actors import THE_SYSTEM, Channel
from statecore.kernel.refusals import GuardFailed, Invalid, InvalidTransition, NotFound, PermissionDenied, StaleVersion
from statecore.machines.patch_ledger import PatchLedger
from statecore.records import CompensationStep
from tests.executors.support import fresh, gate, patch, python
from tests.executors.work_tree import HELLO, replacing
from tests.support import world

pytestmark = pytest.mark.django_db

REASON = "regression in counting"
EDGE = "patch_ledger.committed->rolled_back"
apprise_loads_old_modules = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
IS_BACK = "import pathlib, sys; sys.exit('zwei' in pathlib.Path('hello.txt').read_text())"


@pytest.fixture
def committed(work_tree):
    entry = patch(replacing("two", "zwei"))
    patches.run_due(wait=0)
    return fresh(entry)


def reverting(entry, *more, **validation):
    return {
        "compensation_type": "git_revert",
        "actions": [{"action": "git_revert", "commit_sha": entry.commit_sha, "branch": "main"}, *more],
        "validation": {"required_gates": [], "verify_clean_state": True, **validation},
    }


def approved(entry, agreed=None):
    compensation.write_plan(entry.pk, agreed or reverting(entry), world.operator("ada"))
    compensation.approve(entry.pk, world.operator("bob"))
    return entry


def execute(entry, actor=None):
    return compensation.execute(entry.pk, actor or world.operator("cleo"), REASON, wait=0)


def said(entry):
    return [(step.action, step.ok) for step in steps.of(entry.pk)]


def test_an_approved_plan_reverts_the_commit_and_rolls_the_patch_back(committed, work_tree) -> None:
    before = work_tree.head()

    rolled_back = execute(approved(committed))

    assert (rolled_back.state, rolled_back.rollback_reason) == ("rolled_back", REASON)
    assert (work_tree.read(), work_tree.is_clean()) == (HELLO, True)
    assert work_tree.log()[:2] == [f"Revert: {REASON}", f"Patch {committed.patch_id}"]
    assert work_tree.git("rev-parse", "HEAD^") == before
    assert f"Statecore-Rollback: {committed.pk}" in work_tree.git("log", "-1", "--format=%B")
    event = world.last_event(committed)
    assert (event["trigger"], event["operator"], event["severity"]) == ("rollback_requested", "cleo", "critical")
    assert event["metadata"]["revert_commit"] == work_tree.head()


def test_each_step_is_on_record_with_who_and_when(committed, commands, settings) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python("import os; print(os.environ['STATECORE_TEST_SUITE'])")
    gate(IS_BACK, gate_type="LINT", workstream=committed.workstream)
    tests = {"action": "run_tests", "test_suite": "regression", "required": True}

    execute(approved(committed, reverting(committed, tests, required_gates=["LINT"])))

    assert said(committed) == [
        (action, True)
        for action in ("plan_written", "plan_approved", "started", "git_revert", "run_tests", "required_gate", "commit",
                       "verify_clean_state", "rolled_back")
    ]  # fmt: skip
    written, approval, started, _revert, tested, *_, last = (step.as_dict() for step in steps.of(committed.pk))
    assert (written["actor"], approval["actor"], started["actor"]) == ("ada", "bob", "cleo")
    assert approval["details"]["digest"] == plan.digest(written["details"]["plan"])
    assert "regression\n" in tested["output"]
    assert started["execution"] == last["execution"] != written["execution"]
    assert tested["started_at"] <= tested["ended_at"]


def test_steps_are_never_changed_or_added_by_hand(committed) -> None:
    approved(committed)
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


def test_failing_tests_leave_the_patch_committed_and_the_tree_as_it_was(
    committed, work_tree, commands, settings
) -> None:
    fail = "import sys; open('litter', 'w'); open('hello.txt', 'a').write('x'); print('2 failed'); sys.exit(1)"
    settings.STATECORE_PATCH_TEST_COMMAND = python(fail)
    before = work_tree.head()
    approved(committed, reverting(committed, {"action": "run_tests", "test_suite": "all", "required": True}))

    with pytest.raises(RollbackFailed, match=r"stays committed: run_tests: .* ended with exit code 1"):
        execute(committed)

    assert fresh(committed).state == "committed"
    assert (work_tree.head(), work_tree.is_clean()) == (before, True)
    assert "zwei" in work_tree.read()
    assert said(committed)[2:] == [
        ("started", True), ("git_revert", True), ("run_tests", False), ("undone", True), ("failed", False)
    ]  # fmt: skip
    failed = steps.of(committed.pk).get(action="run_tests")
    assert "2 failed" in failed.output
    settings.STATECORE_PATCH_TEST_COMMAND = python(IS_BACK)
    assert execute(committed).state == "rolled_back", "it may be tried again"


def test_a_step_that_is_not_required_may_fail(committed, work_tree) -> None:
    tests = {"action": "run_tests", "test_suite": "all"}
    approved(committed, reverting(committed, tests, {"action": "notify", "channels": ["slack"], "recipients": []}))

    assert execute(committed).state == "rolled_back"

    assert ("run_tests", False) in said(committed)
    assert steps.of(committed.pk).get(action="notify").error == "nobody is notified: STATECORE_NOTIFY_URLS is empty"


@pytest.mark.parametrize(
    ("validation", "error"),
    [
        ({"required_gates": ["SECURITY"]}, "has no gate of type SECURITY"),
        ({"required_gates": ["UNIT"]}, "ended with exit code 3"),
    ],
)
def test_a_required_gate_that_is_missing_or_fails_undoes_it_all(
    committed, work_tree, commands, validation, error
) -> None:
    gate("import sys; sys.exit(3)", gate_type="UNIT", workstream=committed.workstream)
    before = work_tree.head()
    approved(committed, reverting(committed, **validation))

    with pytest.raises(RollbackFailed, match=error):
        execute(committed)

    assert fresh(committed).state == "committed"
    assert (work_tree.head(), work_tree.is_clean()) == (before, True)


def test_commands_that_are_off_fail_the_step_that_needs_them(committed, settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ()
    gate(gate_type="UNIT", workstream=committed.workstream)
    approved(committed, reverting(committed, required_gates=["UNIT"]))

    with pytest.raises(RollbackFailed, match="commands are off: STATECORE_GATE_COMMANDS names no program"):
        execute(committed)


def test_a_revert_that_conflicts_fails_and_leaves_everything(committed, work_tree) -> None:
    work_tree.write("hello.txt", "one\nZWEI\nthree\n")
    before = work_tree.commit("Louder")
    approved(committed)

    with pytest.raises(RollbackFailed, match="could not revert"):
        execute(committed)

    assert (work_tree.head(), work_tree.is_clean(), fresh(committed).state) == (before, True, "committed")


def test_another_branch_than_the_plans_is_not_touched(committed, work_tree) -> None:
    work_tree.git("switch", "--quiet", "--create", "other")
    approved(committed)

    with pytest.raises(RollbackFailed, match="the repository is on other, not on main"):
        execute(committed)


def test_without_an_approved_plan_nothing_happens(committed, work_tree) -> None:
    before = work_tree.head()

    with pytest.raises(GuardFailed, match="there is none"):
        execute(committed)
    compensation.write_plan(committed.pk, reverting(committed), world.operator())
    with pytest.raises(GuardFailed, match="not approved"):
        execute(committed)

    assert (work_tree.head(), fresh(committed).state) == (before, "committed")
    assert said(committed) == [("plan_written", True)]


def test_a_new_plan_takes_a_new_approval(committed) -> None:
    approved(committed)

    compensation.write_plan(committed.pk, reverting(committed, verify_clean_state=False), world.operator())

    with pytest.raises(GuardFailed, match="not approved"):
        execute(committed)


def test_an_approval_is_for_the_plan_that_was_read(committed) -> None:
    read = compensation.write_plan(committed.pk, reverting(committed), world.operator()).details["digest"]
    compensation.write_plan(committed.pk, reverting(committed, verify_clean_state=False), world.operator())

    with pytest.raises(StaleVersion, match="changed since it was read"):
        compensation.approve(committed.pk, world.operator(), digest=read)

    assert fresh(committed).compensation_approved_by == ""


def test_where_the_policy_demands_it_another_person_approves(committed, settings) -> None:
    settings.STATECORE_SECOND_PERSON = frozenset({EDGE})
    compensation.write_plan(committed.pk, reverting(committed), world.operator("ada"))

    with pytest.raises(PermissionDenied, match="another operator than its writer"):
        compensation.approve(committed.pk, world.operator("ada"))
    compensation.approve(committed.pk, world.operator("bob"))

    assert fresh(committed).compensation_approved_by == "bob"


def test_who_may_not_does_not(committed) -> None:
    for actor in (world.AGENT, world.operator_with("view_patchledger", name="eve")):
        with pytest.raises(PermissionDenied):
            compensation.write_plan(committed.pk, reverting(committed), actor)
    compensation.write_plan(committed.pk, reverting(committed), world.operator())
    for actor in (world.AGENT, THE_SYSTEM, world.operator_with("operate_patchledger", name="dan")):
        with pytest.raises(PermissionDenied):
            compensation.approve(committed.pk, actor)
    compensation.approve(committed.pk, world.operator())
    with pytest.raises(PermissionDenied):
        execute(committed, world.AGENT)


def test_only_a_committed_patch_has_a_plan(work_tree) -> None:
    entry = patch(replacing("two", "zwei"))

    for ask in (
        lambda: compensation.write_plan(entry.pk, {}, world.operator()),
        lambda: compensation.approve(entry.pk, world.operator()),
        lambda: compensation.default_plan(entry),
        lambda: execute(entry),
    ):
        with pytest.raises(InvalidTransition, match="only a committed patch"):
            ask()
    with pytest.raises(NotFound):
        compensation.write_plan("nobody", {}, world.operator())


def test_who_looks_while_it_is_rolled_back_is_told(committed) -> None:
    seen = PatchLedger.objects.get(pk=committed.pk)
    assert execute(approved(committed)).state == "rolled_back"

    assert compensation.default_plan(seen)["compensation_type"] == "git_revert"


def test_a_rollback_says_why(committed) -> None:
    approved(committed)

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
def test_a_plan_that_is_not_one_is_refused_by_the_name_of_the_field(change, field) -> None:
    entry = PatchLedger(commit_sha="abcdef1234")
    plan.read(reverting(entry), entry.commit_sha)

    with pytest.raises(Invalid) as refusal:
        plan.read({**reverting(entry), **change}, entry.commit_sha)

    assert field in refusal.value.facts["errors"]


@pytest.mark.parametrize("given", [None, [], "revert", {}, {"actions": float("nan")}])
def test_what_is_no_object_at_all_is_refused(given) -> None:
    with pytest.raises(Invalid):
        plan.read(given, "abcdef1234")


def test_a_plan_that_is_refused_is_not_kept(committed) -> None:
    with pytest.raises(Invalid):
        compensation.write_plan(committed.pk, {"compensation_type": "git_revert"}, world.operator())

    assert said(committed) == []


def test_the_default_plan_works(committed, commands, settings) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python(IS_BACK)
    gate(IS_BACK, gate_type="UNIT", workstream=committed.workstream)
    found = compensation.default_plan(PatchLedger.objects.get(pk=committed.pk))

    assert found["validation"] == {"required_gates": ["UNIT"], "verify_clean_state": True}
    assert [action["action"] for action in found["actions"]] == ["git_revert", "run_tests"]
    assert execute(approved(committed, found)).state == "rolled_back"


def test_a_plan_that_touches_nothing_needs_no_repository(committed, work_tree, settings) -> None:
    settings.STATECORE_REPOSITORY = None
    before = work_tree.head()

    execute(approved(committed, {"compensation_type": "manual_fix", "actions": []}))

    assert (fresh(committed).state, work_tree.head()) == ("rolled_back", before)


def test_a_repository_in_use_or_dirty_is_left_alone(committed, work_tree) -> None:
    approved(committed)
    with repository.opened(), pytest.raises(Busy):
        execute(committed)
    work_tree.write("notes.txt", "mine")
    with pytest.raises(NotUsable, match=r"notes\.txt"):
        execute(committed)

    assert said(committed) == [("plan_written", True), ("plan_approved", True)]


def test_a_plan_that_changes_while_it_is_executed_is_not_carried_through(committed, work_tree, monkeypatch) -> None:
    before = work_tree.head()
    approved(committed)
    commit = repository.Repository.commit

    def changed_meanwhile(opened, *given):
        approved(committed, reverting(committed, verify_clean_state=False))
        return commit(opened, *given)

    monkeypatch.setattr(repository.Repository, "commit", changed_meanwhile)
    with pytest.raises(RollbackFailed, match="plan was changed"):
        execute(committed)

    assert (work_tree.head(), work_tree.is_clean(), fresh(committed).state) == (before, True, "committed")


class Mailbox(ThreadingHTTPServer):
    def __init__(self) -> None:
        self.received: list[dict] = []
        self.meanwhile: Callable[[], None] | None = None
        super().__init__(("127.0.0.1", 0), Letter)


class Letter(BaseHTTPRequestHandler):
    timeout = 10  # for who has called and says nothing

    def do_POST(self) -> None:
        self.server.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        meanwhile, self.server.meanwhile = self.server.meanwhile, None
        if meanwhile:
            meanwhile()
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
def test_people_are_told_through_apprise(committed, settings, mailbox) -> None:
    settings.STATECORE_NOTIFY_URLS = (f"json://127.0.0.1:{mailbox.server_port}/",)
    notice = {"action": "notify", "channels": ["slack"], "recipients": ["dev-team"], "required": True}

    execute(approved(committed, reverting(committed, notice)))

    (letter,) = mailbox.received
    assert letter["title"] == f"Patch {committed.pk} is being rolled back"
    assert REASON in letter["message"]
    assert "dev-team, slack" in letter["message"]


@apprise_loads_old_modules
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("reached", [True, False])
def test_a_plan_of_notices_only_is_executed_by_one_of_two_workers(
    committed, settings, mailbox, monkeypatch, reached
) -> None:
    monkeypatch.setattr(compensation, "PATIENCE", 0.0)
    nowhere = () if reached else ("json://127.0.0.1:1/",)
    settings.STATECORE_NOTIFY_URLS = (f"json://127.0.0.1:{mailbox.server_port}/", *nowhere)
    approved(committed, {"compensation_type": "manual_fix", "actions": [{"action": "notify", "required": True}]})
    compensation.request(committed.pk, operator_in_the_database(), REASON)

    def other_worker() -> None:
        compensation.run_due()
        connection.close()

    mailbox.meanwhile = other_worker
    asked = compensation.due()
    assert [compensation._run(each) for each in asked] == [reached]
    assert [compensation._run(each) for each in asked] == [False], "a worker that has found it before"

    assert len(mailbox.received) == 1
    assert [action for action, _ok in said(committed)][3:] == [
        "started", "notify", "rolled_back" if reached else "failed"
    ]  # fmt: skip


@apprise_loads_old_modules
def test_a_required_notice_that_reaches_nobody_undoes_it_and_keeps_the_address_secret(
    committed, settings, caplog
) -> None:
    settings.STATECORE_NOTIFY_URLS = ("json://user:hush@127.0.0.1:1/",)
    approved(committed, reverting(committed, {"action": "notify", "required": True}))

    with pytest.raises(RollbackFailed, match="could be reached"):
        execute(committed)

    assert "hush" not in caplog.text
    assert not any("hush" in str(step.as_dict()) for step in steps.of(committed.pk))


def operator_in_the_database(name="cleo"):
    return world.operator_with("operate_patchledger", name=name)


def test_a_rollback_that_was_asked_for_is_executed_once(committed) -> None:
    compensation.request(approved(committed).pk, operator_in_the_database(), REASON)

    assert compensation.run_due() == 1
    assert compensation.run_due() == 0

    assert fresh(committed).state == "rolled_back"
    assert world.last_event(committed)["operator"] == "cleo"
    assert world.last_event(committed)["channel"] == Channel.CONSOLE


def test_a_rollback_that_failed_is_not_tried_again_by_itself(committed, work_tree) -> None:
    approved(committed, reverting(committed, required_gates=["LINT"]))
    compensation.request(committed.pk, operator_in_the_database(), REASON)

    assert compensation.run_due() == 0
    assert compensation.run_due() == 0

    assert [action for action, _ok in said(committed)].count("started") == 1


def test_who_has_lost_the_right_meanwhile_does_not_roll_back(committed) -> None:
    actor = operator_in_the_database()
    compensation.request(approved(committed).pk, actor, REASON)
    from django.contrib.auth.models import User

    User.objects.get(username="cleo").user_permissions.clear()

    assert compensation.run_due() == 0

    assert fresh(committed).state == "committed"
    assert steps.of(committed.pk).last().error == "cleo may not operate patch_ledger rows"


def test_a_rollback_waits_for_a_repository_in_use(committed, monkeypatch) -> None:
    monkeypatch.setattr(compensation, "PATIENCE", 0.0)
    compensation.request(approved(committed).pk, operator_in_the_database(), REASON)

    with repository.opened():
        assert compensation.run_due() == 0
    assert compensation.run_due() == 1
