"""Editing plain fields: an event of its own kind records the old and new values; the state stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from django.core.exceptions import ValidationError
from django.db import models

from ..journal import EventKind
from ..kernel import registry
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.refusals import ConstraintViolated, Invalid, StateIsProtected, TerminalState
from ..kernel.transition import Facts, Severity
from ..kernel.validation import describe_errors
from ..storage.rows import copy_instance
from . import rights
from .change import EventSpec, check_version, record_edit
from .create import field_complaint, read_times
from .outcome import counting_refusals
from .unit_of_work import UnitOfWork, run_in_transaction

EDITED = "edited"  # the trigger of every edit
VALUE_LIMIT = 500  # characters of each value in an event


def edit(
    model: type[Entity],
    entity_id: str,
    fields: Mapping[str, Any],
    *,
    actor: Actor,
    expected_version: int | None = None,
) -> Entity:
    """Set these fields and return the entity; parents and dependencies are fixed at creation."""

    def step(work: UnitOfWork) -> Entity:
        entity: Entity = work.lock(model, entity_id)
        rights.require_own(actor, entity)
        check_version(entity, expected_version)
        given = read_times(model, fields)
        _check_fields(entity, given, actor)
        changed = {name: value for name, value in given.items() if _differ(getattr(entity, name), value)}
        if changed:
            _validate(copy_instance(entity), changed)
            amend(work, entity, changed, actor=actor)
            for entity_type, reaction in registry.edit_reactions:
                if entity_type == model.flow.entity_type:
                    reaction(work, entity, changed.keys())
        return entity

    with counting_refusals(model.flow.entity_type):
        rights.require(actor, model.flow, "operate")
        return run_in_transaction(step)


def amend(work: UnitOfWork, entity: Entity, changed: Mapping[str, Any], *, actor: Actor, reason: str = "") -> None:
    """Set fields of a locked entity and record the edit. Checks neither rights nor values, and runs no reactions."""
    work.flush()
    before = entity.__dict__.copy()
    shown = {name: describe(getattr(entity, column(entity, name).attname), value) for name, value in changed.items()}
    _set(entity, changed)
    _set(entity, entity.fields_after_edit())
    _record(work, entity, before, shown, actor, reason)


def record_note(work: UnitOfWork, entity: Entity, changed: Mapping[str, str], *, actor: Actor) -> None:
    """Record an edit of something that belongs to a locked entity and is not a field, such as an artifact."""
    work.flush()
    _record(work, entity, entity.__dict__.copy(), changed, actor, "")


def _record(
    work: UnitOfWork, entity: Entity, before: Mapping[str, Any], changed: Mapping[str, str], actor: Actor, reason: str
) -> None:
    facts = Facts(max(now(), entity.updated_at), actor, {}, reason)
    spec = EventSpec(EventKind.EDITED, EDITED, Severity.INFO, facts, {"changed": changed})
    work.stage([record_edit(entity, before, spec)])
    work.flush()


def describe(old: object, new: object) -> str:
    """Return both values as a text that fits into an event."""
    return f"{_shorten(old)} → {_shorten(new)}"


def _shorten(value: object) -> str:
    value = value.pk if isinstance(value, models.Model) else value
    return repr(value).replace("\0", "").encode(errors="replace").decode()[:VALUE_LIMIT]


def _differ(kept: object, given: object) -> bool:
    """Compared as JSON, because in Python 1 equals True."""
    before, after = (orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in (kept, given))
    return before != after


def editable_fields(model: type[Entity]) -> list[str]:
    """Return the fields that may be changed while the entity is not final."""
    always_frozen = {name for name, states in model.flow.frozen.items() if not states}
    return sorted(
        name
        for name in model.editable_fields() - always_frozen
        if not isinstance(column(model, name), models.ForeignKey) and not column(model, name).primary_key
    )


def _check_fields(entity: Entity, fields: Mapping[str, Any], actor: Actor) -> None:
    model, flow = type(entity), entity.flow
    if "state" in fields:
        raise StateIsProtected(f"the state of {entity} is changed by its transitions only")
    allowed = editable_fields(model)
    errors = {name: ["is not a field that can be changed."] for name in sorted(fields.keys() - set(allowed))}
    errors |= {
        name: [found] for name in fields if name in allowed and (found := field_complaint(model, name, fields[name]))
    }
    if actor.kind is Kind.AGENT:
        errors = {name: ["is changed by operators."] for name in fields if name not in flow.agents_change} | errors
    if errors:
        raise Invalid(errors)
    if frozen := sorted(name for name in fields if _is_frozen(entity, name)):
        raise ConstraintViolated(
            f"{', '.join(frozen)} of {entity} cannot be changed any more", **entity.current_facts()
        )
    if flow.is_final(entity.state) and fields.keys() - {"metadata"}:
        raise TerminalState(
            f"{entity} is {entity.state}, which is final: only its metadata may change", **entity.current_facts()
        )


def _is_frozen(entity: Entity, name: str) -> bool:
    while_open = entity.flow.frozen.get(name)
    return bool(while_open) and entity.state not in {str(state) for state in while_open or ()}


def _validate(copy: Entity, changed: Mapping[str, Any]) -> None:
    _set(copy, changed)
    try:
        copy.clean_fields(exclude={field.name for field in copy._meta.concrete_fields} - changed.keys())
    except ValidationError as error:
        raise Invalid(describe_errors(error)) from error


def _set(entity: Entity, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        setattr(entity, name if isinstance(value, models.Model) else column(entity, name).attname, value)
