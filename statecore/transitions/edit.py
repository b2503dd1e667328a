"""Editing plain fields: makes no event and keeps the version; the edit is recorded in the audit notes."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import orjson
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models

from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.refusals import ConstraintViolated, Invalid, StateIsProtected, TerminalState
from ..records import audit_note
from . import rights
from .change import check_version
from .create import field_complaint
from .outcome import counting_refusals
from .unit_of_work import UnitOfWork, run_in_transaction


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
        _check_fields(entity, fields, actor)
        changed = {name: value for name, value in fields.items() if _differ(getattr(entity, name), value)}
        if changed:
            facts = {name: f"{getattr(entity, name)!r} → {value!r}" for name, value in changed.items()}
            _write(entity, changed)
            _note(entity, facts, actor)
        return entity

    with counting_refusals(model.flow.entity_type):
        rights.require(actor, model.flow, "operate")
        return run_in_transaction(step)


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


def digest_fields(entity: Entity) -> str:
    """Return a hash of all fields that may be edited: an edit changes no version, but it changes this."""
    fields = {name: getattr(entity, name) for name in editable_fields(type(entity))}
    return sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS, default=str)).hexdigest()


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


def _write(entity: Entity, changed: Mapping[str, Any]) -> None:
    _set(entity, changed)
    try:
        entity.clean_fields(exclude={field.name for field in entity._meta.concrete_fields} - changed.keys())
    except ValidationError as error:
        raise Invalid(error.message_dict) from error
    following = entity.fields_after_edit()
    _set(entity, following)
    try:
        type(entity).objects.filter(pk=entity.pk).update(**changed, **following)
    except IntegrityError as error:
        raise ConstraintViolated(f"the database refuses this row: {str(error).splitlines()[0]}") from error


def _set(entity: Entity, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        setattr(entity, name, value)


def _note(entity: Entity, facts: Mapping[str, str], actor: Actor) -> None:
    audit_note.note(
        audit_note.Kind.EDITED,
        actor=actor,
        entity_type=entity.flow.entity_type,
        entity_id=entity.pk,
        detail=f"changed {', '.join(sorted(facts))}",
        facts=facts,
    )
