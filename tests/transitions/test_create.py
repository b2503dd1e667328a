"""Creating an entity: it is in its initial state and has the first event of its chain."""

import pytest

from statecore import transitions
from statecore.journal import GENESIS, Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import (
    DuplicateId,
    GuardFailed,
    Invalid,
    PermissionDenied,
    Refusal,
    StateIsProtected,
)
from tests.machines import worlds
from tests.support import world
from tests.support.world import AGENT, created, events_of, last_event

pytestmark = pytest.mark.django_db

every_machine = pytest.mark.parametrize("flow", worlds.flows(), ids=lambda flow: flow.entity_type)


def refused(name: str, **fields) -> dict[str, list[str]]:
    """Returns the errors of a refused creation by field, and asserts that nothing was stored."""
    before = Event.objects.count()
    with pytest.raises(Invalid) as refusal:
        created(name, **fields)
    assert Event.objects.count() == before
    return refusal.value.facts["errors"]


@every_machine
def test_a_new_entity_is_in_its_initial_state_at_version_one(flow) -> None:
    entity = worlds.create_entity(flow)
    stored = flow.model.objects.get(pk=entity.pk)
    assert (stored.state, stored.version, stored.attempt) == (flow.initial, 1, 0)
    assert stored.created_at == stored.updated_at == stored.state_entered_at
    assert stored.retry_of is None


@every_machine
def test_creation_is_the_first_event_of_the_chain(flow) -> None:
    entity = worlds.create_entity(flow)
    (event,) = events_of(entity)
    assert (event["kind"], event["sequence"], event["from_state"]) == ("created", 1, None)
    assert (event["to_state"], event["prev_hash"], event["severity"]) == (flow.initial, GENESIS, "info")
    assert event["hash"] == entity.chain_head
    assert event["entity_type"] == flow.entity_type


@every_machine
def test_what_is_answered_is_what_is_stored(flow) -> None:
    entity = worlds.create_entity(flow)
    assert entity.as_dict() == flow.model.objects.get(pk=entity.pk).as_dict()


def test_the_creation_of_an_agent_job_has_its_own_trigger() -> None:
    assert last_event(created("AgentJob"))["trigger"] == "job_created"
    assert last_event(world.run())["trigger"] == "created"


def test_a_creation_records_the_actor_and_the_reason() -> None:
    outcome = transitions.create(world.model("Worker"), actor=AGENT, reason="my first day")
    event = last_event(outcome.entity)
    assert (event["actor"], event["channel"], event["reason"]) == ("agent-7", "rest", "my first day")


def test_a_creation_names_what_caused_it() -> None:
    cause = transitions.create(world.model("Worker"), actor=AGENT).entry
    outcome = transitions.create(world.model("Worker"), actor=THE_SYSTEM, cause=cause)
    assert last_event(outcome.entity)["caused_by"] == cause.event_id


def test_an_id_is_made_where_none_is_given() -> None:
    assert world.workstream().pk.startswith("ws_")
    assert is_valid_id(world.workstream().pk)


def test_the_callers_own_id_is_kept() -> None:
    assert created("Worker", id="builder-7:a.b_c").pk == "builder-7:a.b_c"


@pytest.mark.parametrize("id_", ["", "a b", "a/b", "x" * 65, "ä", 'a"b', "a\n", "a\0", 7, ["a"]])
def test_an_id_has_the_shape_of_one(id_) -> None:
    assert list(refused("Worker", id=id_)) == ["id"]


def test_a_taken_id_is_refused() -> None:
    worker = created("Worker", id="builder-7")
    before = world.trace(worker)
    with pytest.raises(DuplicateId) as refusal:
        created("Worker", id="builder-7", capabilities=["git"])
    assert refusal.value.facts == {"id": "builder-7"}
    assert world.trace(worker) == before


def test_machines_do_not_share_their_ids() -> None:
    created("Worker", id="seven")
    assert created("CircuitBreaker", id="seven").pk == "seven"


@every_machine
def test_a_state_in_the_body_is_refused(flow) -> None:
    with pytest.raises(StateIsProtected) as refusal:
        created(flow.model.__name__, state=flow.initial)
    assert (refusal.value.code, refusal.value.status) == ("state_is_protected", 400)


SET_BY_THE_SERVER = ("version", "chain_head", "attempt", "created_at", "updated_at", "state_entered_at", "retry_of")


@pytest.mark.parametrize("name", [*SET_BY_THE_SERVER, "retry_count", "worker", "started_at", "run", "phase", "colour"])
def test_what_the_server_sets_cannot_be_given(name) -> None:
    errors = refused("Task", workstream=world.workstream(), **{name: now()})
    assert errors == {name: ["is not a field that can be set."]}


def test_a_task_belongs_to_the_run_and_phase_of_its_workstream() -> None:
    workstream = world.workstream()
    task = created("Task", workstream=workstream.pk)
    assert (task.run_id, task.phase_id) == (workstream.run_id, workstream.phase_id)


@pytest.mark.parametrize("workstream", ["nowhere", None, 7, {"id": "x"}])
def test_a_relation_must_lead_somewhere(workstream) -> None:
    assert "workstream" in refused("Task", workstream=workstream)


def test_a_required_field_must_be_given() -> None:
    assert "phase" in refused("Run")
    assert {"command", "gate_type"} <= refused("TestGate", phase=world.phase()).keys()


def test_a_choice_must_be_known() -> None:
    assert list(refused("Worker", worker_type="toaster")) == ["worker_type"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("timeout_sec", 0), ("timeout_sec", "soon"), ("max_retries", -1), ("max_retries", 101), ("is_critical", "maybe")],
)
def test_a_number_must_be_in_range(name, value) -> None:
    assert list(refused("Task", workstream=world.workstream(), **{name: value})) == [name]


# Links


def test_links_are_made_with_the_entity() -> None:
    first = world.task()
    gate = world.gate()
    task = created("Task", workstream=first.workstream, depends_on=[first.pk, first.pk], gates=[gate.pk])
    assert list(task.depends_on.values_list("pk", flat=True)) == [first.pk]
    assert list(task.gates.values_list("pk", flat=True)) == [gate.pk]


@pytest.mark.parametrize("ids", ["task-1", [7], [None], {"a": 1}, None, ["a b"]])
def test_links_are_a_list_of_ids(ids) -> None:
    errors = refused("Task", workstream=world.workstream(), depends_on=ids)
    assert errors == {"depends_on": ["must be a list of ids."]}


def test_a_link_must_lead_somewhere() -> None:
    errors = refused("Task", workstream=world.workstream(), depends_on=["nowhere"])
    assert errors == {"depends_on": ["there is no task nowhere."]}


def test_nothing_depends_on_itself() -> None:
    errors = refused("Task", id="me", workstream=world.workstream(), depends_on=["me"])
    assert errors == {"depends_on": ["me cannot depend on itself."]}


# Values that the machines could not handle later


@pytest.mark.parametrize("required", [5, "git", {"git": True}, [5], [["git"]], None])
def test_capabilities_are_a_list_of_names(required) -> None:
    assert list(refused("Task", workstream=world.workstream(), required_capabilities=required)) == [
        "required_capabilities"
    ]
    assert list(refused("Worker", capabilities=required)) == ["capabilities"]


@pytest.mark.parametrize("affinity", [5, "ws-1", ["ws-1"], {"workstreams": "ws-1"}, {"workstreams": [1]}])
def test_an_affinity_names_workstreams(affinity) -> None:
    assert list(refused("Worker", affinity=affinity)) == ["affinity"]


@pytest.mark.parametrize("codes", [0, "0", {}, ["0"], [True], []])
def test_expected_exit_codes_are_a_list_of_numbers(codes) -> None:
    assert list(refused("Task", workstream=world.workstream(), expected_exit_codes=codes)) == ["expected_exit_codes"]


@pytest.mark.parametrize("text", ["a\0b", "\ud800"], ids=["NUL", "half a character"])
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("AgentJob", {"goal": "{text}"}),
        ("AgentJob", {"metadata": {"note": "{text}"}}),
        ("AgentJob", {"metadata": {"{text}": 1}}),
        ("Worker", {"capabilities": ["{text}"]}),
        ("Task", {"workstream": "{text}"}),
    ],
    ids=["text", "metadata", "key of metadata", "capabilities", "relation"],
)
def test_text_that_a_database_cannot_keep_is_refused(name, fields, text) -> None:
    assert refused(name, **_said(fields, text)).keys() >= fields.keys()


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_know_is_refused(number) -> None:
    assert list(refused("AgentJob", metadata={"load": [number]})) == ["metadata"]


def _said(value, text: str):
    if isinstance(value, dict):
        return {_said(key, text): _said(each, text) for key, each in value.items()}
    if isinstance(value, list):
        return [_said(each, text) for each in value]
    return value.replace("{text}", text) if isinstance(value, str) else value


# Permissions and dry runs


def test_an_operator_without_the_permission_creates_nothing() -> None:
    with pytest.raises(PermissionDenied) as refusal:
        transitions.create(world.model("Run"), actor=world.operator_with("view_run"), phase=world.phase())
    assert refusal.value.facts == {"required": "statecore.operate_run"}
    assert world.model("Run").objects.count() == 0


def test_an_operator_with_the_permission_creates() -> None:
    outcome = transitions.create(world.model("Run"), actor=world.operator_with("operate_run"), phase=world.phase())
    assert last_event(outcome.entity)["operator"] == "bob"


def test_a_dry_run_shows_the_entity_and_keeps_nothing() -> None:
    outcome = transitions.create(world.model("Worker"), actor=AGENT, id="ghost", dry_run=True)
    assert (outcome.entity.pk, outcome.entry.kind) == ("ghost", "created")
    assert not world.model("Worker").objects.filter(pk="ghost").exists()
    assert Event.objects.count() == 0


def test_a_refused_creation_keeps_nothing() -> None:
    workstream = world.workstream()
    before = Event.objects.count()
    with pytest.raises(Refusal):
        created("Task", id="half", workstream=workstream, depends_on=["nowhere"])
    assert Event.objects.count() == before
    assert world.model("Task").objects.count() == 0


@pytest.mark.parametrize(
    ("parent", "state", "child"), [("run", "canceled", "Workstream"), ("workstream", "failed", "Task")]
)
def test_nothing_is_created_in_a_finished_parent(parent: str, state: str, child: str) -> None:
    ended = world.forced(getattr(world, parent)(), state)
    with pytest.raises(GuardFailed) as refused:
        world.created(child, **{parent: ended.pk})
    assert refused.value.unmet[0].entity == ended.pk


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("AgentJob", {"goal": {}}),
        ("AgentJob", {"goal": []}),
        ("IngestionJob", {"max_attempts": 2.9}),
        ("IngestionJob", {"max_attempts": True}),
        ("IngestionJob", {"max_attempts": float("inf")}),
        ("Task", {"workstream": {}}),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_field_name(name: str, fields: dict) -> None:
    assert list(refused(name, **fields)) == list(fields)
