"""Overrides bypass guards, but never final states, constraints or the journal."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import (
    AlreadyInState,
    ConstraintViolated,
    GuardFailed,
    Invalid,
    LeaseLost,
    NotFound,
    PermissionDenied,
    Refusal,
    StaleVersion,
    TerminalState,
)
from tests.machines import worlds
from tests.machines.worlds import Clock
from tests.support import world
from tests.support.world import (
    AGENT,
    REASON,
    events_of,
    fire,
    forced,
    last_event,
    operator,
    trace,
)

# An override is tested for its direct effect; reactions would change the entity or its parents again.
pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]

# A constraint requires a worker, which an override cannot name; a rolled-back patch must have been reverted.
NEVER_FORCED = {
    "task": {"running"},
    "ingestion_job": {"running"},
    "agent_job": {"running"},
    "patch_ledger": {"rolled_back"},
    "workstream": {"paused"},
}
STATES = [(flow, state) for flow in worlds.flows() for state in flow.states]
every_state = pytest.mark.parametrize(
    ("flow", "state"), STATES, ids=[f"{flow.entity_type}: {state}" for flow, state in STATES]
)


@pytest.fixture
def clock() -> Iterator[Clock]:
    with worlds.fixed_clock() as traveller:
        yield traveller


def override(entity, to_state: str, **details) -> transitions.Outcome:
    details = {"actor": operator(), "reason": REASON, "category": "stuck", **details}
    return transitions.override(type(entity), entity.pk, to_state, **details)


def ways_out(flow, state: str) -> set[str]:
    """Returns the states that an override may lead to from this one."""
    if state in flow.final:
        return {target for source, target in flow.final_exits() if source == state} - {"rolled_back"}
    return set(flow.states) - {state} - NEVER_FORCED.get(flow.entity_type, set())


@every_state
def test_an_override_leads_to_every_state_that_the_constraints_allow(flow, state, clock) -> None:
    entity = worlds.bring_to(flow, state, clock)
    reached = {target for target in flow.states if can_be_forced(entity, target)}
    assert reached == ways_out(flow, state)


def can_be_forced(entity, target: str) -> bool:
    try:
        return override(entity, target, dry_run=True).entity.state == target
    except (AlreadyInState, ConstraintViolated, TerminalState, GuardFailed):
        return False


@every_state
def test_what_may_not_be_forced_leaves_no_trace(flow, state, clock) -> None:
    entity = worlds.bring_to(flow, state, clock)
    before = trace(entity)
    for target in set(flow.states) - ways_out(flow, state):
        with pytest.raises(Refusal):
            override(entity, target)
    assert trace(entity) == before


# Recording


def test_an_override_is_an_event_of_its_own_kind() -> None:
    task = forced(world.task(), "completed", actor=operator("grace"), category="crashed_worker")
    event = last_event(task)
    assert (event["kind"], event["event_type"], event["trigger"]) == (
        "override",
        "manual_override",
        "manual_override",
    )
    assert (event["severity"], event["operator"], event["channel"]) == ("warning", "grace", "console")
    assert (event["from_state"], event["to_state"]) == ("pending", "completed")
    assert (event["reason"], event["category"], event["approver"]) == (REASON, "crashed_worker", None)


@pytest.mark.parametrize("category", transitions.Category.values)
def test_the_category_of_an_override_is_on_record(category) -> None:
    assert last_event(forced(world.run(), "running", category=category))["category"] == category


def test_an_override_names_the_guards_it_bypassed() -> None:
    other = world.task()
    task = world.task(workstream=other.workstream, depends_on=[other.pk])
    forced(task, "queued")
    assert last_event(task)["guards_bypassed"] == ["dependencies_are_completed"]


def test_an_override_along_an_open_edge_bypassed_nothing() -> None:
    assert last_event(forced(world.task(), "queued"))["guards_bypassed"] == []


def test_an_override_without_an_edge_records_the_missing_edge() -> None:
    event = last_event(forced(world.task(), "completed"))
    assert event["guards_bypassed"] == ["no_edge_from_pending_to_completed"]


def test_an_override_records_guards_that_need_missing_fields_as_bypassed() -> None:
    gate = fire(world.gate(), "gate_started")
    assert last_event(forced(gate, "PASSED"))["guards_bypassed"] == ["the_exit_code_is_expected"]


def test_an_override_keeps_the_callers_metadata() -> None:
    event = last_event(forced(world.task(), "queued", metadata={"ticket": "OPS-1"}))
    assert event["metadata"]["ticket"] == "OPS-1"


def test_an_override_makes_the_fields_agree_with_the_state() -> None:
    task = forced(world.running_task(), "cancelled")
    assert (task.worker_id, task.lease_expires_at) == (None, None)
    assert task.completed_at == task.cancelled_at == task.updated_at


def test_a_forced_quarantine_keeps_the_operators_reason() -> None:
    patch = forced(world.patch(), "quarantined")
    assert (patch.quarantine_reason, patch.quarantined_at) == (REASON, patch.updated_at)


def test_a_forced_gate_has_the_exit_code_its_result_implies() -> None:
    assert forced(world.gate(), "PASSED").exit_code == 0
    assert forced(world.gate(), "FAILED").exit_code == 1
    assert forced(world.gate(expected_exit_code=3), "PASSED").exit_code == 3


# Fencing


def test_an_override_bumps_the_fencing_number() -> None:
    task = world.running_task()
    assert (task.attempt, forced(task, "queued").attempt) == (1, 2)
    assert last_event(task)["attempt"] == 2


def test_a_late_report_after_an_override_and_a_new_claim_is_refused() -> None:
    task = world.running_task()
    forced(task, "queued")
    fire(task, "worker_started", worker=world.idle_worker().pk)
    before = trace(task)
    with pytest.raises(LeaseLost) as refused:
        fire(task, "execution_completed", actor=AGENT, exit_code=0, attempt=1)
    assert refused.value.code == "lease_lost"
    assert trace(task) == before


@pytest.mark.parametrize("state", ["pending", "queued", "validating", "blocked", "retrying", "failed"])
def test_a_late_report_after_an_override_is_refused_with_lease_lost(state) -> None:
    task = world.running_task()
    forced(task, state)
    with pytest.raises(Refusal) as refused:
        fire(task, "execution_failed", actor=AGENT, error="too late", attempt=1)
    assert refused.value.code == "lease_lost"


# Permissions


@pytest.mark.parametrize("actor", [AGENT, THE_SYSTEM], ids=["agent", "system"])
def test_only_an_operator_overrides(actor) -> None:
    run = world.run()
    before = trace(run)
    with pytest.raises(PermissionDenied) as refused:
        override(run, "running", actor=actor)
    assert refused.value.facts == {"required": "statecore.override_run"}
    assert trace(run) == before


@pytest.mark.parametrize("permissions", [(), ("operate_run",), ("override_task",)])
def test_an_override_takes_the_permission_for_that_machine(permissions) -> None:
    with pytest.raises(PermissionDenied) as refused:
        override(world.run(), "running", actor=world.operator_with(*permissions))
    assert refused.value.facts == {"required": "statecore.override_run"}


def test_the_permission_to_override_is_enough() -> None:
    actor = world.operator_with("override_run", name="grace")
    assert override(world.run(), "running", actor=actor).entity.state == "running"


def test_an_inactive_operator_overrides_nothing() -> None:
    actor = world.operator_with("override_run", name="gone")
    world.User.objects.filter(username="gone").update(is_active=False)
    inactive = world.Actor.operator(world.User.objects.get(username="gone"), actor.channel)
    with pytest.raises(PermissionDenied):
        override(world.run(), "running", actor=inactive)


# Reason and category


@pytest.mark.parametrize("reason", ["", "too short", "         x         "])
def test_an_override_needs_a_reason_of_ten_characters(reason) -> None:
    run = world.run()
    before = trace(run)
    with pytest.raises(Invalid) as refused:
        override(run, "running", reason=reason)
    assert list(refused.value.facts["errors"]) == ["reason"]
    assert trace(run) == before


def test_ten_characters_are_enough() -> None:
    assert override(world.run(), "running", reason="0123456789").changed


@pytest.mark.parametrize("category", ["", "because", "STUCK"])
def test_an_override_takes_a_known_category(category) -> None:
    with pytest.raises(Invalid) as refused:
        override(world.run(), "running", category=category)
    assert list(refused.value.facts["errors"]) == ["category"]


def test_an_override_leads_to_a_known_state() -> None:
    with pytest.raises(Invalid) as refused:
        override(world.run(), "exploded")
    assert list(refused.value.facts["errors"]) == ["to_state"]


def test_all_errors_are_returned_together() -> None:
    with pytest.raises(Invalid) as refused:
        override(world.run(), "exploded", reason="", category="")
    assert set(refused.value.facts["errors"]) == {"to_state", "reason", "category"}


# Refusals


def test_a_final_state_is_not_left_by_override() -> None:
    task = forced(world.task(), "failed")
    before = trace(task)
    with pytest.raises(TerminalState, match="retry it instead"):
        override(task, "pending")
    assert trace(task) == before


def test_an_override_to_the_current_state_is_a_conflict() -> None:
    with pytest.raises(AlreadyInState):
        override(world.run(), "pending")


def test_a_task_is_not_forced_to_run_without_a_worker() -> None:
    task = world.queued_task()
    before = trace(task)
    with pytest.raises(ConstraintViolated) as refused:
        override(task, "running")
    assert refused.value.facts["constraint"] in ("task_worker_exactly_in_state", "task_started_at_set_in_state")
    assert trace(task) == before


def test_an_entity_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound):
        transitions.override(
            world.model("Run"), "nowhere", "running", actor=operator(), reason=REASON, category="other"
        )


def test_a_stale_operator_is_refused() -> None:
    run = fire(world.run(), "run_started")
    with pytest.raises(StaleVersion):
        override(run, "failed", expected_version=1)


def test_a_committed_patch_cannot_be_forced_to_be_rolled_back(clock) -> None:
    patch = worlds.bring_to(registry.flow("patch_ledger"), "committed", clock)
    world.touched(patch, compensation_plan={"compensation_type": "git_revert"}, compensation_approved_by="eve")
    with pytest.raises(GuardFailed) as refused:
        override(patch, "rolled_back")
    assert [reason.code for reason in refused.value.unmet] == ["never_forced"]


def test_a_quarantined_patch_is_dropped_by_override() -> None:
    assert override(forced(world.patch(), "quarantined"), "dropped").entity.state == "dropped"


# Dry runs and the cascade


def test_a_preview_shows_the_cascade_and_leaves_nothing(monkeypatch) -> None:
    workstream = world.workstream()
    task = world.task(workstream=workstream)

    def cancel_the_task(work, change) -> None:
        if change.entity.pk == workstream.pk:
            given = {"actor": THE_SYSTEM, "cause": change.entry, "within": work}
            transitions.transition(type(task), task.pk, "cascade_cancelled", **given)

    monkeypatch.setattr(registry, "reactions", [("", world.reaction_per_change(cancel_the_task))])
    before = trace(workstream), trace(task)

    outcome = override(workstream, "failed", dry_run=True)

    assert outcome.entity.state == "failed"
    assert [(entry.entity_id, entry.to_state) for entry in outcome.caused] == [(task.pk, "cancelled")]
    assert (trace(workstream), trace(task)) == before


def test_consequences_of_an_override_name_it_as_their_cause(monkeypatch) -> None:
    workstream = world.workstream()
    task = world.task(workstream=workstream)

    def cancel_the_task(work, change) -> None:
        if change.entity.pk == workstream.pk:
            given = {"actor": THE_SYSTEM, "cause": change.entry, "within": work}
            transitions.transition(type(task), task.pk, "cascade_cancelled", **given)

    monkeypatch.setattr(registry, "reactions", [("", world.reaction_per_change(cancel_the_task))])
    outcome = override(workstream, "failed")
    event = last_event(task)
    assert (event["kind"], event["caused_by"]) == ("propagated", outcome.entry.event_id)
    assert (event["operator"], event["actor"]) == (None, "system")


def test_a_refused_override_is_written_to_the_log() -> None:
    run = world.run()
    with capture_logs() as logs, pytest.raises(PermissionDenied):
        override(run, "running", actor=AGENT)
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("override_refused", "warning")
    assert (line["entity_id"], line["actor"], line["code"]) == (run.pk, "agent-7", "permission_denied")


def test_an_override_continues_the_chain() -> None:
    task = forced(world.queued_task(), "failed")
    assert [event["sequence"] for event in events_of(task)] == [1, 2, 3]
    assert last_event(task)["prev_hash"] == events_of(task)[1]["hash"]


def test_a_guard_that_held_is_not_recorded_as_bypassed(clock) -> None:
    job = worlds.bring_to(registry.flow("ingestion_job"), "quarantined", clock)
    assert last_event(forced(job, "pending"))["guards_bypassed"] == []
