"""Changing plain fields: no state changes, so no event is made and the version stays; who did it is noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models

from ..kernel.actors import Actor
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.refusals import ConstraintViolated, Invalid, StateIsProtected, TerminalState
from ..records import audit_note
from . import rights, rows
from .create import complaint
from .perform import perform
from .refused import counted
from .transition import check_version


def edit(
    model: type[Entity],
    entity_id: str,
    fields: Mapping[str, Any],
    *,
    actor: Actor,
    expected_version: int | None = None,
) -> Entity:
    """Set these fields and return the entity; what it belongs to and depends on is settled at its creation."""

    def step() -> Entity:
        entity = rows.lock(model, entity_id)
        rights.must_be_its_own(actor, entity)
        check_version(entity, expected_version)
        _check(entity, fields)
        changed = {name: value for name, value in fields.items() if _differ(getattr(entity, name), value)}
        if changed:
            facts = {name: f"{getattr(entity, name)!r} → {value!r}" for name, value in changed.items()}
            _write(entity, changed)
            _note(entity, facts, actor)
        return entity

    with counted(model.flow.entity_type):
        rights.require(actor, model.flow, "operate")
        return perform(step)


def _differ(kept: object, given: object) -> bool:
    """Told apart as JSON does: to Python 1 is True."""
    before, after = (orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in (kept, given))
    return before != after


def editable(model: type[Entity]) -> list[str]:
    """The fields that may be changed as long as the entity is not final."""
    always_frozen = {name for name, states in model.flow.frozen.items() if not states}
    return sorted(
        name
        for name in model.plain_fields() - always_frozen
        if not isinstance(column(model, name), models.ForeignKey) and not column(model, name).primary_key
    )


def _check(entity: Entity, fields: Mapping[str, Any]) -> None:
    model, flow = type(entity), entity.flow
    if "state" in fields:
        raise StateIsProtected(f"the state of {entity} is changed by its transitions only")
    allowed = editable(model)
    errors = {name: ["is not a field that can be changed."] for name in sorted(fields.keys() - set(allowed))}
    errors |= {name: [said] for name in fields if name in allowed and (said := complaint(model, name, fields[name]))}
    if errors:
        raise Invalid(errors)
    if frozen := sorted(name for name in fields if _is_frozen(entity, name)):
        raise ConstraintViolated(f"{', '.join(frozen)} of {entity} cannot be changed any more", **entity.standing())
    if flow.is_final(entity.state) and fields.keys() - {"metadata"}:
        raise TerminalState(
            f"{entity} is {entity.state}, which is final: only its metadata may change", **entity.standing()
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
    following = entity.follow_edit()
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
