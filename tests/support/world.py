"""Factories for users, records and entities; entities are created by the transition service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction

from statecore import reactions, transitions
from statecore.journal import Event
from statecore.kernel import evidence, registry
from statecore.kernel.actors import THE_SYSTEM, Actor, Channel, Kind
from statecore.kernel.clock import now
from statecore.kernel.entity import Entity
from statecore.kernel.transition import Facts
from statecore.records import Patch, Phase
from statecore.scheduling import breakers
from statecore.storage import write_guard
from statecore.storage.links import read_links
from statecore.transitions.edit import amend
from statecore.transitions.link_rows import insert_links
from statecore.transitions.relink import replace_links
from statecore.transitions.unit_of_work import UnitOfWork, run_in_transaction

AGENT = Actor.agent("agent-7")
INTEGRATOR = Actor("integrator-3", Kind.INTEGRATOR, Channel.REST)
REASON = "seen to be wrong by hand"
_numbers = count(1)


def operator(name: str = "ada", channel: Channel = Channel.CONSOLE) -> Actor:
    """An operator who may do everything."""
    return Actor.operator(User(username=name, is_superuser=True), channel)


def operator_with(*permissions: str, name: str = "bob") -> Actor:
    """An operator who may do exactly this: `operate_task`, `override_run`, …"""
    user = User.objects.create(username=name, password="!")
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return Actor.operator(user, Channel.CONSOLE)


def actor_of_kind(kind: Kind) -> Actor:
    return {
        Kind.AGENT: AGENT, Kind.INTEGRATOR: INTEGRATOR, Kind.OPERATOR: operator(), Kind.SYSTEM: THE_SYSTEM,
    }[kind]  # fmt: skip


def model(name: str) -> type[Entity]:
    return apps.get_model("statecore", name)  # type: ignore[return-value]


def idle_supervised_workers(*names: str) -> list[str]:
    """Creates the workers that do not exist yet; returns the names."""
    for name in names:
        if not model("SupervisedWorker").objects.filter(pk=name).exists():
            created("SupervisedWorker", id=name, workspace_id="space")
    return list(names)


def created(name: str, **fields: Any) -> Any:
    return transitions.create(model(name), actor=THE_SYSTEM, **fields).entity


def link(entity: Any, name: str, *targets: Any) -> None:
    """Add links to an existing entity, which no call of the product does, recorded as an edit."""

    def step(work: UnitOfWork) -> None:
        added = [target.pk for target in targets]
        links = read_links(type(entity), [entity.pk])[entity.pk]
        digests = evidence.digest_links({**links, name: [*links[name], *added]})
        amend(work, work.lock(type(entity), entity.pk), {"link_digests": digests}, actor=THE_SYSTEM)
        insert_links(connection, type(entity), {entity.pk: {name: added}})

    run_in_transaction(step)


def relink(entity: Any, name: str, old: Any, new: Any) -> None:
    """Replace a target of a link, as the retry of the target does."""
    link, facts = type(entity)._meta.get_field(name), Facts(now(), THE_SYSTEM, {}, "")
    run_in_transaction(lambda work: replace_links(work, type(entity), link, [entity.pk], (old.pk, new.pk), facts))


def phase() -> Phase:
    return Phase.objects.create(id=f"PH-{next(_numbers)}")


def run(**fields: Any) -> Any:
    return created("Run", **fields if "phase" in fields else {"phase": phase(), **fields})


def run_by(actor: Actor) -> Any:
    """A run that this actor has submitted, to which its account may add parts."""
    return transitions.create(model("Run"), actor=actor, phase=phase()).entity


def workstream(**fields: Any) -> Any:
    return created("Workstream", **fields if "run" in fields else {"run": run(), **fields})


def task(**fields: Any) -> Any:
    return created("Task", **fields if "workstream" in fields else {"workstream": workstream(), **fields})


def gate(**fields: Any) -> Any:
    fields = fields if "phase" in fields else {"phase": phase(), **fields}
    return created("TestGate", **{"gate_type": "UNIT", "command": "pytest", **fields})


def patch(**fields: Any) -> Any:
    fields = fields if "workstream" in fields else {"workstream": workstream(), **fields}
    text = Patch.objects.create(id=f"PATCH-{next(_numbers)}", diff="--- a\n+++ b\n")
    return created("PatchLedger", **{"patch": text, **fields})


def rolled_back_patch(**fields: Any) -> Any:
    """A patch as the executors leave it after a rollback, without a repository."""
    entry = forced(patch(**fields), "committed")
    plan = {"compensation_type": "git_revert"}
    touched(entry, compensation_plan=plan, compensation_approved_by="eve", revert_commit="1" * 40)
    return fire(entry, "rollback_requested", error="it broke the build")


def worker(**fields: Any) -> Any:
    return created("Worker", **fields)


def idle_worker(**fields: Any) -> Any:
    return fire(worker(**fields), "registration_completed")


def queued_task(**fields: Any) -> Any:
    return fire(task(**fields), "scheduler_assigned")


def running_task(*, by: Any = None, **fields: Any) -> Any:
    return fire(queued_task(**fields), "worker_started", worker=(by or idle_worker()).pk)


def open_breaker(tool: str) -> None:
    """Opens the breaker of a tool by reporting a failure as an agent."""
    created("CircuitBreaker", id=tool, failure_threshold=1)
    breakers.acquire(tool, actor=AGENT)
    breakers.report(tool, success=False, actor=AGENT, error="it crashed")


def fire(entity: Entity, trigger: str, *, actor: Actor = THE_SYSTEM, **params: Any) -> Any:
    return transitions.transition(type(entity), entity.pk, trigger, actor=actor, params=params).entity


def forced(entity: Entity, state: str, **details: Any) -> Any:
    details = {"actor": operator(), "reason": REASON, "category": "other", **details}
    return transitions.override(type(entity), entity.pk, state, **details).entity


def touched(entity: Entity, **plain: Any) -> Any:
    """Updates fields other than the state: volatile ones as a heartbeat does, others by an edit."""
    volatile = {name: value for name, value in plain.items() if name in {*type(entity).volatile, "state_entered_at"}}
    type(entity).objects.filter(pk=entity.pk).update(**volatile)
    if edited := {name: value for name, value in plain.items() if name not in volatile}:

        def step(work: UnitOfWork) -> None:
            transitions.amend(work, work.lock(type(entity), entity.pk), edited, actor=THE_SYSTEM)

        run_in_transaction(step)
    return type(entity).objects.get(pk=entity.pk)


def disable_reactions() -> None:
    """Does what the fixture `machines_in_isolation` does, in a process that a test has started."""
    registry.reactions[:] = [each for each in registry.reactions if each not in reactions.REACTIONS]


def reaction_per_change(react: Callable[[Any, Any], None]) -> registry.Reaction:
    """Returns a reaction that calls the function once per change."""
    return lambda work, changes: [react(work, change) for change in changes] and None


def events_of(entity: Entity) -> list[dict[str, Any]]:
    flow = entity.flow
    found = Event.objects.filter(entity_type=flow.entity_type, entity_id=entity.pk)
    return [event.as_dict() for event in found.order_by("sequence")]


def last_event(entity: Entity) -> dict[str, Any]:
    return events_of(entity)[-1]


def trace(entity: Entity) -> tuple[Any, ...]:
    """Returns everything that a transition would change: the stored row and all events of machines."""
    quote, meta = connection.ops.quote_name, entity._meta
    columns = ", ".join(quote(field.column) for field in meta.concrete_fields)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {quote(meta.db_table)} WHERE id = %s", [entity.pk])
        row = cursor.fetchall()
    return row, sorted(Event.objects.exclude(kind="account").values_list("event_id", "hash"))


@contextmanager
def disable_write_guard() -> Iterator[None]:
    """Enables writes on SQLite, as the transition service does: what is refused now is refused by something else."""
    with transaction.atomic(), write_guard.allow_writes(connection):
        yield
