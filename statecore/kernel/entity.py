"""The base of every machine: what all entities have, and that nothing but the door writes them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.signals import class_prepared

from . import registry
from .clock import rfc3339
from .flow import Flow
from .id_field import IdField
from .invariant import Invariant
from .moves import Facts
from .refusals import Unmet
from .ulid import ID_LENGTH, ID_PATTERN
from .validators import json_object

CONTEXT = ("run", "workstream", "phase")


class WriteOutsideTheDoor(TypeError):
    """An entity was saved or deleted directly; only statecore.door writes entities."""


class Entity(models.Model):
    flow: ClassVar[Flow]
    creation_trigger: ClassVar[str] = "created"
    objects: ClassVar[Any]
    state: Any  # each machine declares its own StateField

    id = IdField(
        primary_key=True,
        max_length=ID_LENGTH,
        validators=[RegexValidator(rf"^{ID_PATTERN.pattern}\Z")],
    )
    version = models.PositiveIntegerField(default=0, editable=False)
    chain_head = models.CharField(max_length=64, editable=False)
    # The fencing number: each claim and each override makes it one more, a report must name the current one.
    attempt = models.PositiveIntegerField(default=0, editable=False)
    # Indexed for the lists, which show the newest first.
    created_at = models.DateTimeField(editable=False, db_index=True)
    updated_at = models.DateTimeField(editable=False)
    state_entered_at = models.DateTimeField(editable=False)
    retry_of = models.OneToOneField(
        "self", models.PROTECT, null=True, blank=True, editable=False, related_name="successor"
    )
    metadata = models.JSONField(default=dict, blank=True, validators=[json_object])

    # Set by the door for the time of a move.
    facts: Facts
    unmet: list[Unmet]

    class Meta:
        abstract = True
        default_permissions = ("view", "operate", "override")

    def __str__(self) -> str:
        return f"{self.flow.entity_type} {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        raise WriteOutsideTheDoor(f"{self} is written by statecore.door only")

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise WriteOutsideTheDoor(f"{self} is never deleted")

    def standing(self) -> dict[str, Any]:
        """The facts a refused caller needs: where the entity is and what is open to it."""
        return {"state": self.state, "version": self.version, "allowed": self.flow.allowed(self.state)}

    def has_ended(self) -> bool:
        """Whether nothing will be done on it any more."""
        return self.flow.is_final(self.state)

    def settle(self, at: datetime, reason: str) -> None:
        """Make the fields that depend on the state agree with it; runs after each change of state, forced or not."""

    def follow_edit(self) -> dict[str, Any]:
        """The fields that depend on those an edit may change, as they have to be now; runs after each edit."""
        return {}

    def journal_facts(self, trigger: str) -> dict[str, Any]:
        """What this machine adds to the metadata of each of its events; read before the state is settled."""
        return {}

    def holder(self) -> str:
        """The agent that alone may speak for it; empty where any may."""
        return ""

    def has_lost(self, attempt: object) -> bool:
        """Whether the lease that was given under this attempt is gone."""
        return attempt != self.attempt

    @classmethod
    def plain_fields(cls) -> set[str]:
        """What a caller may set, and a successor takes over."""
        return {field.name for field in cls._meta.concrete_fields if field.editable} - {"id"}

    @classmethod
    def complete(cls, fields: dict[str, Any]) -> None:
        """Fill in, before creation, what follows from the given fields."""

    def is_repeated_by(self, facts: Facts) -> bool:
        """Where repeats change nothing: whether this one comes from who brought the entity here."""
        return True

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        """What must hold between this machine's entities and others; integrity looks for what breaks it."""
        return ()

    def context(self) -> dict[str, str]:
        """What the entity belongs to; a run or a workstream belongs to itself, so that it is found with its parts."""
        values = self.__dict__
        return {key: values[name] for key, name in _context_columns(type(self)) if values[name] is not None}

    def as_dict(self) -> dict[str, Any]:
        """The plain fields, ready for JSON."""
        values = self.__dict__  # descriptors would cost more than all the rest
        return {
            name: _plain(values[column] if column in values else getattr(self, column))
            for name, column in _plain_columns(type(self))
        }

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


@cache
def _plain_columns(model: type[Entity]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.attname) for field in model._meta.concrete_fields)


@cache
def _context_columns(model: type[Entity]) -> tuple[tuple[str, str], ...]:
    own = model.flow.entity_type
    columns = {field.attname for field in model._meta.concrete_fields}
    found = {f"{name}_id": "id" if name == own else f"{name}_id" for name in CONTEXT}
    return tuple((key, column) for key, column in found.items() if column in columns)


def _plain(value: Any) -> Any:
    return rfc3339(value) if isinstance(value, datetime) else value


def _register(sender: type[models.Model], **_: Any) -> None:
    # While SQLite rebuilds a table, a copy of the model without its declarations passes by.
    if issubclass(sender, Entity) and not sender._meta.abstract and hasattr(sender, "flow"):
        sender.flow.bind(sender)
        registry.add(sender.flow)


class_prepared.connect(_register)
