"""A small world to test in: people, records and entities, all of it made through the door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction

from statecore import door, reactions
from statecore.journal import Event
from statecore.kernel import latch as database_gate
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM, Actor, Channel, Kind
from statecore.kernel.entity import Entity
from statecore.records import Patch, Phase
from statecore.scheduling import breakers

AGENT = Actor.agent("agent-7")
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


def an_actor(kind: Kind) -> Actor:
    return {Kind.AGENT: AGENT, Kind.OPERATOR: operator(), Kind.SYSTEM: THE_SYSTEM}[kind]


def model(name: str) -> type[Entity]:
    return apps.get_model("statecore", name)  # type: ignore[return-value]


def created(name: str, **fields: Any) -> Any:
    return door.create(model(name), actor=THE_SYSTEM, **fields).entity


def phase() -> Phase:
    return Phase.objects.create(id=f"PH-{next(_numbers)}")


def run(**fields: Any) -> Any:
    return created("Run", **fields if "phase" in fields else {"phase": phase(), **fields})


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


def worker(**fields: Any) -> Any:
    return created("Worker", **fields)


def idle_worker(**fields: Any) -> Any:
    return fire(worker(**fields), "registration_completed")


def queued_task(**fields: Any) -> Any:
    return fire(task(**fields), "scheduler_assigned")


def running_task(*, by: Any = None, **fields: Any) -> Any:
    return fire(queued_task(**fields), "worker_started", worker=(by or idle_worker()).pk)


def open_breaker(tool: str) -> None:
    """By an agent, for whom the tool has failed as often as it may."""
    created("CircuitBreaker", id=tool, failure_threshold=1)
    breakers.report(tool, success=False, actor=AGENT, error="it crashed")


def fire(entity: Entity, trigger: str, *, actor: Actor = THE_SYSTEM, **params: Any) -> Any:
    return door.transition(type(entity), entity.pk, trigger, actor=actor, params=params).entity


def forced(entity: Entity, state: str, **details: Any) -> Any:
    details = {"actor": operator(), "reason": REASON, "category": "other", **details}
    return door.override(type(entity), entity.pk, state, **details).entity


def touched(entity: Entity, **plain: Any) -> Any:
    """Change fields that are not the state's, as a heartbeat or a PATCH does."""
    type(entity).objects.filter(pk=entity.pk).update(**plain)
    return type(entity).objects.get(pk=entity.pk)


def machines_alone(registry: Any) -> None:
    """Without what the machines do to each other, in a process that lives for a test."""
    registry.reactions[:] = [reaction for reaction in registry.reactions if reaction is not reactions.follow]


def each(react: Callable[[Any], None]) -> registry.Reaction:
    """A reaction that is told of one change at a time."""
    return lambda changes: [react(change) for change in changes] and None


def events_of(entity: Entity) -> list[dict[str, Any]]:
    flow = entity.flow
    found = Event.objects.filter(entity_type=flow.entity_type, entity_id=entity.pk)
    return [event.as_dict() for event in found.order_by("sequence")]


def last_event(entity: Entity) -> dict[str, Any]:
    return events_of(entity)[-1]


def trace(entity: Entity) -> tuple[Any, ...]:
    """All that a change would touch: the row as the database holds it, and every event there is."""
    quote, meta = connection.ops.quote_name, entity._meta
    columns = ", ".join(quote(field.column) for field in meta.concrete_fields)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {quote(meta.db_table)} WHERE id = %s", [entity.pk])
        row = cursor.fetchall()
    return row, sorted(Event.objects.values_list("event_id", "hash"))


@contextmanager
def open_gate() -> Iterator[None]:
    """Hold the database's gate open, as only the door does: what is refused now is refused by something else."""
    with transaction.atomic(), database_gate.opened(connection):
        _set_gate("open")
        yield
        _set_gate("shut")


def _set_gate(position: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config(%s, %s, true)", [database_gate.SETTING, position])
