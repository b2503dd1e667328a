"""The base model of every machine; only the transition service writes its rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, NamedTuple

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.signals import class_prepared

from . import registry
from .actors import IDENTITY_LENGTH, Actor
from .clock import rfc3339
from .constraints import Invariant
from .flow import Flow
from .ids import ID_LENGTH, ID_PATTERN, IdField
from .refusals import Unmet
from .transition import Facts
from .validation import validate_json_object

CONTEXT = ("run", "workstream", "phase")
# Columns that only the integrity checks read.
UNSHOWN = frozenset({"link_digests"})


class Lookups(NamedTuple):
    """The ids of entities that are checked together, and the results of the queries made for all of them."""

    ids: list[str]
    results: dict[Any, Any]


class DirectWriteError(TypeError):
    """An entity was saved or deleted directly instead of through statecore.transitions."""


class Entity(models.Model):
    flow: ClassVar[Flow]
    creation_trigger: ClassVar[str] = "created"
    # Fields that change without an event, such as heartbeats and leases. All others are evidence: they change only with
    # an event, which has their digest (kernel/evidence.py).
    volatile: ClassVar[tuple[str, ...]] = ()
    # The columns that an event has itself.
    event_columns: ClassVar[frozenset[str]] = frozenset(
        {"id", "state", "version", "chain_head", "updated_at", "state_entered_at"}
    )
    # Large columns that only the detail of an entity has: neither lists nor the responses of other calls.
    detail_only: ClassVar[frozenset[str]] = frozenset()
    # SQL: the state as entities that wait for this one see it; `{row}` is the name of its row.
    awaited_state: ClassVar[str] = "{row}.state"
    objects: ClassVar[Any]
    state: Any  # a StateField that each machine declares

    id = IdField(
        primary_key=True,
        max_length=ID_LENGTH,
        validators=[RegexValidator(rf"^{ID_PATTERN.pattern}\Z")],
    )
    version = models.PositiveIntegerField(default=0, editable=False)
    chain_head = models.CharField(max_length=64, editable=False)
    # A fencing token: each claim and each override increments it, and a report must send the current value.
    attempt = models.PositiveIntegerField(default=0, editable=False)
    # The identity of the agent that holds it, such as `token:stc_0a1b2c3d`; written together with an event.
    holder = models.CharField(max_length=IDENTITY_LENGTH, default="", db_default="", editable=False)
    # Indexed for lists, which show the newest first.
    created_at = models.DateTimeField(editable=False, db_index=True)
    updated_at = models.DateTimeField(editable=False)
    state_entered_at = models.DateTimeField(editable=False)
    retry_of = models.OneToOneField(
        "self", models.PROTECT, null=True, blank=True, editable=False, related_name="successor"
    )
    metadata = models.JSONField(default=dict, blank=True, validators=[validate_json_object])

    # Set by the transition service for the duration of a change.
    facts: Facts
    unmet: list[Unmet]
    # Set by `storage.links.share_lookups` for entities that are checked together.
    lookups: Lookups | None = None

    class Meta:
        abstract = True
        default_permissions: ClassVar[tuple[str, ...]] = ("view", "operate", "override")

    def __str__(self) -> str:
        return f"{self.flow.entity_type} {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        raise DirectWriteError(f"{self} can only be written by statecore.transitions")

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise DirectWriteError(f"{self} cannot be deleted")

    def current_facts(self) -> dict[str, Any]:
        """Returns what a refused caller needs: state, version and the triggers allowed now."""
        return {"state": self.state, "version": self.version, "allowed": self.flow.allowed(self.state)}

    def has_ended(self) -> bool:
        """Whether no more work will be done on it."""
        return self.flow.is_final(self.state)

    def expires_at(self) -> datetime | None:
        """Returns when the time that it has for itself ends, such as a timeout; until then it is not overdue."""
        return None

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        """Updates the fields that depend on the state; called after each transition, override and creation."""

    def fields_after_edit(self) -> dict[str, Any]:
        """Returns new values of the fields that depend on edited ones; called after each edit."""
        return {}

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        """Returns what the machine adds to each of its events; called before `sync_state_fields`."""
        return {}

    def is_free(self) -> bool:
        """Whether any agent may take it. An entity that an operator or the system started has no holder yet."""
        return not self.holder or self.state in self.flow.free_in

    def is_held_by(self, actor: Actor) -> bool:
        return self.holder == actor.identity and not self.is_free()

    def judged_work(self) -> set[str]:
        """Returns the identities whose work it judges; no account judges its own work."""
        return set()

    @classmethod
    def closed_to_agents(cls, ids: Iterable[str]) -> list[str]:
        """Returns those of the ids to which agents may not link their entities."""
        return []

    def lease_is_stale(self, attempt: object) -> bool:
        """Whether the lease of this attempt has ended."""
        return attempt != self.attempt

    @classmethod
    def editable_fields(cls) -> set[str]:
        """Returns the names of the fields that a caller may set and a successor copies."""
        return {field.name for field in cls._meta.concrete_fields if field.editable} - {"id"}

    @classmethod
    def derive_fields(cls, fields: dict[str, Any]) -> None:
        """Adds the fields that follow from the given ones; called before creation."""

    def is_repeat(self, facts: Facts) -> bool:
        """With `repeats_are_noops`: whether the caller repeats its own transition, which then succeeds."""
        return True

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        """Returns the rules between entities that the integrity check verifies."""
        return ()

    def context(self) -> dict[str, str]:
        """Returns the ids of its run, workstream and phase; those of a run or workstream include its own id."""
        found, values = {}, self.__dict__
        for key, name in _context_columns(type(self)):
            if values[name] is not None:
                found[key] = values[name]
        return found

    def details(self) -> dict[str, Any]:
        """Returns the columns that `as_dict` leaves out because of their size."""
        return {name: getattr(self, name) for name in sorted(self.detail_only)}

    def as_dict(self) -> dict[str, Any]:
        """Returns all columns but the digests of links and those of the detail, with timestamps as text."""
        serialized, values = {}, self.__dict__  # descriptors would dominate the cost
        for name, column in _columns(type(self)):
            value = values[column] if column in values else getattr(self, column)
            serialized[name] = rfc3339(value) if isinstance(value, datetime) else value
        return serialized

    def refresh_from_db(
        self,
        using: str | None = None,
        fields: Iterable[str] | None = None,
        from_queryset: Any = None,
    ) -> None:
        self.__dict__["_refreshing"] = True
        try:
            super().refresh_from_db(using=using, fields=fields, from_queryset=from_queryset)
        finally:
            del self.__dict__["_refreshing"]


class HeartbeatEntity(Entity):
    """An entity that its holder keeps by heartbeats, in the states that `Flow.renewed_in` declares."""

    volatile: ClassVar[tuple[str, ...]] = ("last_heartbeat", "progress")
    # The last sign of life of the holder: a heartbeat, or a report.
    last_heartbeat: Any = models.DateTimeField(null=True, editable=False)
    # What the holder last reported: {"fraction", "detail", "at"}, and "since" when it is the same.
    progress = models.JSONField(null=True, editable=False)

    class Meta(Entity.Meta):
        abstract = True

    def last_contact(self) -> datetime | None:
        """Returns the last sign of life of its holder, which for some machines may also come from another entity."""
        found: datetime | None = self.last_heartbeat
        return found

    def lease_ends_at(self, at: datetime) -> datetime | None:
        """Returns when the holder loses it if the heartbeat at this time is the last one; None if it keeps it."""
        deadline = self.flow.deadline(self.state)
        return None if deadline is None else at + deadline

    def note_sign_of_life(self, at: datetime, actor: Actor, state: str, previous_state: str | None) -> None:
        """Sets the heartbeat if its holder acts, or if a state is entered in which heartbeats begin to count."""
        begins = previous_state not in self.flow.lost_without_heartbeats
        if state in self.flow.renewed_in and (actor.holds or begins):
            self.last_heartbeat = at
        if begins:
            self.progress = None


class LinkedEntity(models.Model):
    """A base of entities with links to others: rows of other tables, with digests in the row of the entity."""

    # JSON with a digest for each link that has ids; empty if an earlier version created the entity. A text, because
    # each transition reads and writes it as a whole.
    link_digests = models.TextField(default="", db_default="", editable=False)

    class Meta:
        abstract = True


@cache
def _columns(model: type[Entity]) -> tuple[tuple[str, str], ...]:
    left_out = UNSHOWN | model.detail_only
    return tuple((field.name, field.attname) for field in model._meta.concrete_fields if field.name not in left_out)


@cache
def _context_columns(model: type[Entity]) -> tuple[tuple[str, str], ...]:
    own = model.flow.entity_type
    columns = {field.attname for field in model._meta.concrete_fields}
    found = {f"{name}_id": "id" if name == own else f"{name}_id" for name in CONTEXT}
    return tuple((key, column) for key, column in found.items() if column in columns)


def _register(sender: type[models.Model], **_: Any) -> None:
    # While SQLite rebuilds a table, Django creates a copy of the model without the flow.
    if issubclass(sender, Entity) and not sender._meta.abstract and hasattr(sender, "flow"):
        sender.flow.bind(sender)
        registry.add(sender.flow)


class_prepared.connect(_register)
