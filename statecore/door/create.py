"""Creating an entity, which is an event too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.operations import BaseDatabaseOperations

from ..journal import Entry, EventKind
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.fields import column
from ..kernel.moves import Facts, Severity
from ..kernel.plain import json_complaint, text_complaint
from ..kernel.refusals import ConstraintViolated, DuplicateId, Invalid, StateIsProtected
from ..kernel.ulid import is_valid_id, new_id
from ..kernel.validators import shape_complaint
from . import rights, rows, write
from .change import Account, Change, check_words, record_creation
from .idempotency import RequestKey, answer_once
from .outcome import Outcome
from .perform import perform, react_to
from .refused import counted
from .successors import awaited
from .work import current


class Created(NamedTuple):
    entity: Entity
    entry: Entry
    caused: tuple[Entry, ...]


def create(
    model: type[Entity],
    *,
    actor: Actor,
    id: str | None = None,  # noqa: A002 - the caller's word for it
    reason: str = "",
    cause: Entry | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
    **fields: Any,
) -> Outcome:
    """A new entity in its initial state, with its links, and the first event of its chain."""

    def step() -> Outcome:
        return Outcome(*create_now(model, entity_id, fields, Facts(now(), actor, {}, reason), cause=cause))

    entity_id = new_id(model.flow.prefix) if id is None else id
    with counted(model.flow.entity_type):
        rights.require(actor, model.flow, "operate")
        check_words(reason, {})
        return perform(lambda: answer_once(request, actor, step), keep=not dry_run)


def create_now(
    model: type[Entity],
    entity_id: str,
    fields: Mapping[str, Any],
    facts: Facts,
    *,
    cause: Entry | None = None,
    trigger: str = "",
    retry_of: Entity | None = None,
) -> Created:
    """Create inside the current piece of work."""
    change = write_new(model, entity_id, fields, facts, cause=cause, trigger=trigger, retry_of=retry_of)
    caused = react_to([change])
    return Created(rows.latest(change.entity), change.entry, caused)


def write_new(
    model: type[Entity],
    entity_id: str,
    fields: Mapping[str, Any],
    facts: Facts,
    *,
    cause: Entry | None = None,
    trigger: str = "",
    retry_of: Entity | None = None,
) -> Change:
    """Without the reactions, for which the caller may not have everything in place yet."""
    plain, links = _sort_fields(model, fields)
    wanted = awaited(model, entity_id, links)
    change = _newborn(model, entity_id, plain, facts, cause, trigger=trigger, retry_of=retry_of)
    _insert([change])
    for name, ids in wanted.items():
        getattr(change.entity, name).add(*ids)
    return change


def write_many(
    model: type[Entity], new: Mapping[str, Mapping[str, Any]], facts: Facts, cause: Entry | None
) -> list[Change]:
    """Many of one machine, by id, in a few statements; their links must lead to what is there or is made next."""
    if taken := rows.lock_many(model, list(new)):
        raise DuplicateId(f"the id {taken[0].pk!r} is taken", id=taken[0].pk)
    changes, links = [], []
    for entity_id, fields in new.items():
        try:
            plain, its_links = _sort_fields(model, fields)
            changes.append(_newborn(model, entity_id, plain, facts, cause))
        except Invalid as refusal:
            raise Invalid(refusal.facts["errors"], id=entity_id) from refusal
        links += [(name, entity_id, target) for name, targets in its_links.items() for target in targets]
    _insert(changes)
    for link in model._meta.many_to_many:
        own, other = link.m2m_column_name(), link.m2m_reverse_name()
        through: Any = link.remote_field.through
        made = [through(**{own: source, other: target}) for name, source, target in links if name == link.name]
        through.objects.bulk_create(made, batch_size=5_000)
    return changes


def _is_there(entity: Entity) -> None:
    entity._state.adding = False
    current().known[type(entity), entity.pk] = entity


def _newborn(
    model: type[Entity],
    entity_id: str,
    plain: dict[str, Any],
    facts: Facts,
    cause: Entry | None,
    *,
    trigger: str = "",
    retry_of: Entity | None = None,
) -> Change:
    """The entity and its first event, yet to be written."""
    model.complete(plain)
    entity = _build(model, entity_id, plain)
    entity.retry_of = retry_of
    entity.facts = facts
    account = Account(
        EventKind.CREATED,
        trigger or model.creation_trigger,
        Severity.INFO,
        facts,
        {},
        caused_by=cause.event_id if cause else "",
    )
    return record_creation(entity, account)


# Of many, only PostgreSQL can be told by another that an id is taken: on SQLite whoever looks is the only writer.
_TAKEN = re.compile(r"\(id\)=\((.+?)\)")


def _insert(changes: list[Change]) -> None:
    try:
        write.insert(changes)
    except ConstraintViolated as violation:
        constraint = str(violation.facts["constraint"])
        if constraint.endswith(("_pkey", ".id")):
            taken = _TAKEN.search(str(violation.__cause__))
            entity_id = taken[1] if taken else changes[0].entity.pk
            raise DuplicateId(f"the id {entity_id!r} is taken", id=entity_id) from violation
        raise
    for change in changes:
        _is_there(change.entity)


def _sort_fields(model: type[Entity], fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if "state" in fields:
        raise StateIsProtected(f"{model.flow.entity_type} starts {model.flow.initial}: leave out `state`")
    links = {field.name for field in model._meta.many_to_many}
    plain = model.plain_fields()
    if unknown := fields.keys() - links - plain:
        raise Invalid({name: ["is not a field that can be set."] for name in sorted(unknown)})
    if errors := {name: [said] for name in fields.keys() & plain if (said := complaint(model, name, fields[name]))}:
        raise Invalid(errors)
    return (
        {name: value for name, value in fields.items() if name in plain},
        {name: value for name, value in fields.items() if name in links},
    )


def _build(model: type[Entity], entity_id: str, plain: Mapping[str, Any]) -> Entity:
    if not is_valid_id(entity_id):
        raise Invalid({"id": ["must be 1 to 64 of A-Z a-z 0-9 . _ : -"]})
    values = {}
    for name, value in plain.items():
        field = column(model, name)
        is_key = isinstance(field, models.ForeignKey) and not isinstance(value, models.Model)
        values[field.attname if is_key else name] = value
    entity = model(id=entity_id, **values)
    # A row that was handed over, and what a parent handed down, is there: no query for each of thousands.
    checked = {name for name in model.plain_fields() if not isinstance(plain.get(name), models.Model)}
    try:
        entity.clean_fields(exclude={field.name for field in model._meta.concrete_fields} - checked)
    except ValidationError as error:
        raise Invalid(error.message_dict) from error
    return entity


def complaint(model: type[Entity], name: str, value: Any) -> str | None:
    """What Django's own validation lets through: it skips empty values and turns others into what it wants."""
    field = column(model, name)
    if value is None:
        return None if field.null else "may not be null."
    if isinstance(field, models.JSONField):
        return json_complaint(value) or shape_complaint(field, value)
    if isinstance(field, models.ForeignKey):
        return None if is_valid_id(value) or isinstance(value, field.related_model) else "must be an id."
    wanted = next((type_ for kind, type_ in _TYPES if isinstance(field, kind)), object)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        return "has the wrong type."
    if isinstance(value, int) and isinstance(field, models.IntegerField):
        return _range_complaint(field, value)
    return text_complaint(value) if isinstance(value, str) else None


def _range_complaint(field: models.Field[Any, Any], value: int) -> str | None:
    """SQLite keeps any number, PostgreSQL only those that fit."""
    low, high = BaseDatabaseOperations.integer_field_ranges[field.get_internal_type()]
    return None if low <= value <= high else f"must be between {low} and {high}."


_TYPES: tuple[tuple[type[models.Field[Any, Any]], type], ...] = (
    (models.BooleanField, bool),
    (models.IntegerField, int),
    (models.CharField, str),
    (models.TextField, str),
)
