"""Creating an entity, which is recorded as an event."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.operations import BaseDatabaseOperations

from ..journal import Entry, EventKind
from ..kernel import evidence
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.entity import Entity, LinkedEntity
from ..kernel.fields import column, related
from ..kernel.ids import is_valid_id, new_id
from ..kernel.refusals import ConstraintViolated, DuplicateId, Invalid, StateIsProtected
from ..kernel.transition import Facts, Severity
from ..kernel.validation import describe_errors, field_error, json_error, text_error
from . import rights
from .change import Change, EventSpec, record, validate_reason_and_metadata
from .idempotency import RequestKey
from .link_rows import insert_links
from .outcome import Outcome, counting_refusals
from .successors import resolve_links
from .unit_of_work import UnitOfWork, run_in_transaction

Links = Mapping[str, Sequence[str]]  # the ids of the linked entities by link


def create(
    model: type[Entity],
    *,
    actor: Actor,
    id: str | None = None,  # noqa: A002 - the name of the field
    reason: str = "",
    cause: Entry | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
    within: UnitOfWork | None = None,
    replaces: Entity | None = None,
    **fields: Any,
) -> Outcome:
    """Create an entity in its initial state, with its links and the first event of its chain.

    With `replaces` it is the successor of a final entity, which the caller has locked and checked.
    """

    def insert(work: UnitOfWork) -> Outcome:
        facts = Facts(now(), actor, {}, reason)
        change = insert_entity(work, model, entity_id, fields, facts, cause=cause, retry_of=replaces)
        rights.require_part(actor, change.entity)
        caused = work.react([change])
        return Outcome(work.latest(change.entity), change.entry, caused)

    entity_id = new_id(model.flow.prefix) if id is None else id
    with counting_refusals(model.flow.entity_type):
        rights.require_creation(actor, model.flow)
        validate_reason_and_metadata(reason, {})
        return run_in_transaction(insert, within=within, dry_run=dry_run, request=request, actor=actor)


def insert_entity(
    work: UnitOfWork,
    model: type[Entity],
    entity_id: str,
    fields: Mapping[str, Any],
    facts: Facts,
    *,
    cause: Entry | None = None,
    trigger: str = "",
    retry_of: Entity | None = None,
    links: Links | None = None,
) -> Change:
    """Insert an entity and its links without running the reactions.

    Links that are not among the fields lead to entities that exist or that the same transaction inserts next.
    """
    plain, given = _split_fields(model, fields, facts.actor)
    targets = links
    if targets is None:
        targets = resolve_links(work, model, entity_id, given)
        for name, ids in targets.items():
            rights.require_linkable(facts.actor, related(model, name), ids)
    change = _record_new(model, entity_id, plain, targets, facts, cause, trigger=trigger, retry_of=retry_of)
    _insert(work, [change])
    insert_links(work.connection, model, {entity_id: targets})
    return change


def insert_entities(
    work: UnitOfWork, model: type[Entity], new: Mapping[str, Mapping[str, Any]], facts: Facts, cause: Entry | None
) -> list[Change]:
    """Insert many entities of one machine, by id, in a few statements.

    Their links must lead to entities that exist or that the same transaction inserts next.
    """
    if taken := work.lock_many(model, list(new)):
        raise DuplicateId(f"the id {taken[0].pk!r} is taken", id=taken[0].pk)
    changes, links = [], {}
    for entity_id, fields in new.items():
        try:
            plain, links[entity_id] = _split_fields(model, fields, facts.actor)
            changes.append(_record_new(model, entity_id, plain, links[entity_id], facts, cause))
        except Invalid as refusal:
            raise Invalid(refusal.facts["errors"], id=entity_id) from refusal
    _insert(work, changes)
    insert_links(work.connection, model, links)
    return changes


def _record_new(
    model: type[Entity],
    entity_id: str,
    plain: dict[str, Any],
    links: Links,
    facts: Facts,
    cause: Entry | None,
    *,
    trigger: str = "",
    retry_of: Entity | None = None,
) -> Change:
    """Build the entity and record its first event."""
    model.derive_fields(plain)
    entity = _build(model, entity_id, plain)
    entity.retry_of = retry_of
    entity.facts = facts
    if isinstance(entity, LinkedEntity):
        entity.link_digests = evidence.digest_links(links)
    caused_by = cause.event_id if cause else ""
    trigger = trigger or model.creation_trigger
    return record(entity, {}, EventSpec(EventKind.CREATED, trigger, Severity.INFO, facts, {}, caused_by))


# PostgreSQL names the id in its error. On SQLite, the only writer has checked all ids before.
_TAKEN = re.compile(r"\(id\)=\((.+?)\)")


def _insert(work: UnitOfWork, changes: list[Change]) -> None:
    try:
        work.insert(changes)
    except ConstraintViolated as violation:
        constraint = str(violation.facts["constraint"])
        if constraint.endswith(("_pkey", ".id")):
            taken = _TAKEN.search(str(violation.__cause__))
            entity_id = taken[1] if taken else changes[0].entity.pk
            raise DuplicateId(f"the id {entity_id!r} is taken", id=entity_id) from violation
        raise


def _split_fields(
    model: type[Entity], fields: Mapping[str, Any], actor: Actor
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plain fields and the links; raises Invalid for those that this actor cannot set."""
    if "state" in fields:
        raise StateIsProtected(f"{model.flow.entity_type} starts {model.flow.initial}: leave out `state`")
    fields = read_times(model, fields)
    links = {field.name for field in model._meta.many_to_many}
    plain = model.editable_fields()
    if unknown := fields.keys() - links - plain:
        raise Invalid({name: ["is not a field that can be set."] for name in sorted(unknown)})
    errors = {name: [found] for name in fields.keys() & plain if (found := field_complaint(model, name, fields[name]))}
    if actor.kind is Kind.AGENT:
        refused = {name: model.flow.agent_error(name, value) for name, value in fields.items()}
        errors = {name: [found] for name, found in refused.items() if found} | errors
    if errors:
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
    # Related rows given as instances exist, so they need no query each.
    checked = {name for name in model.editable_fields() if not isinstance(plain.get(name), models.Model)}
    try:
        entity.clean_fields(exclude={field.name for field in model._meta.concrete_fields} - checked)
    except ValidationError as error:
        raise Invalid(describe_errors(error)) from error
    return entity


def read_times(model: type[Entity], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields with times instead of texts; a text that is no time with a zone stays, and is refused later."""
    names = _time_fields(model) & fields.keys()
    return {**fields, **{name: _read_time(fields[name]) for name in names}} if names else fields


@cache
def _time_fields(model: type[Entity]) -> frozenset[str]:
    names = model.editable_fields()
    return frozenset(name for name in names if isinstance(column(model, name), models.DateTimeField))


def _read_time(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(UTC) if isinstance(moment, datetime) and moment.tzinfo else value
    except (ValueError, OverflowError):
        return value


def field_complaint(model: type[Entity], name: str, value: Any) -> str | None:
    """Find what Django's validation misses: it skips empty values and converts others to the wanted type."""
    field = column(model, name)
    if value is None:
        return None if field.null else "may not be null."
    if isinstance(field, models.JSONField):
        return json_error(value) or field_error(field, value)
    if isinstance(field, models.ForeignKey):
        return None if is_valid_id(value) or isinstance(value, field.related_model) else "must be an id."
    if isinstance(field, models.DateTimeField):
        return None if isinstance(value, datetime) and value.tzinfo else "must be a time with its zone, as in RFC 3339."
    wanted = next((type_ for kind, type_ in _TYPES if isinstance(field, kind)), object)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        return "has the wrong type."
    if isinstance(value, int) and isinstance(field, models.IntegerField):
        return _range_complaint(field, value)
    return text_error(value) if isinstance(value, str) else None


def _range_complaint(field: models.Field[Any, Any], value: int) -> str | None:
    """SQLite stores any number, PostgreSQL only those within the range of the column."""
    low, high = BaseDatabaseOperations.integer_field_ranges[field.get_internal_type()]
    return None if low <= value <= high else f"must be between {low} and {high}."


_TYPES: tuple[tuple[type[models.Field[Any, Any]], type], ...] = (
    (models.BooleanField, bool),
    (models.IntegerField, int),
    (models.CharField, str),
    (models.TextField, str),
)
