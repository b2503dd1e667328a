"""What a bulk action is: a request for many entities, the rules that all actions share, and how each is applied."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar

from django.db.models import QuerySet

from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.refusals import Invalid, PermissionDenied, Refusal
from ..kernel.transition import Param
from ..transitions import rights
from ..transitions.change import validate_reason_and_metadata
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from .results import Result

TRY_SECONDS = 2.0  # of a dry run that tries one entity after the other, with the locks that it takes


class Name(StrEnum):
    TRANSITION = "transition"
    CANCEL = "cancel"
    RETRY = "retry"
    OVERRIDE = "override"
    WAIVE = "waive"
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    ACKNOWLEDGE = "acknowledge"
    ASSIGN = "assign"


OPTIONS = ("trigger", "to_state", "category", "expires_at", "metadata")


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done to each entity; which of the fields are needed depends on the action."""

    action: str = Name.TRANSITION
    trigger: str = ""
    to_state: str = ""
    reason: str = ""
    category: str = ""
    expires_at: datetime | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BulkAction(ABC):
    """An action with its request, for the entities of one machine."""

    model: type[Entity]
    request: Request
    # How many entities are one transaction, whose locks delay others, and how many are changed within a request.
    portion: ClassVar[int] = 20
    at_once: ClassVar[int] = 100
    permission: ClassVar[str] = "operate"
    # The fields of a request that it takes, beside `action` and `reason`.
    takes: ClassVar[tuple[str, ...]] = ()

    @property
    def flow(self) -> Flow:
        return self.model.flow

    def check(self, actor: Actor) -> None:
        """Refuse what every entity would refuse."""
        given = {name for name in OPTIONS if getattr(self.request, name)} | self.request.params.keys()
        taken = {*self.takes, *(self.request.params if "params" in self.takes else ())}
        if given - taken:
            raise Invalid({name: [f"is not a field of {self.request.action}."] for name in sorted(given - taken)})
        validate_reason_and_metadata(self.request.reason, self.request.metadata, self.request.params)
        self.check_request(actor)

    def check_request(self, actor: Actor) -> None:
        """Require an operator with the permission: agents take none of these actions."""
        if actor.kind is not Kind.OPERATOR:
            required = self.flow.permission(self.permission)
            raise PermissionDenied(f"only an operator may {self.request.action} many", required=required)
        rights.require(actor, self.flow, self.permission)

    def fields(self) -> tuple[Param, ...]:
        """The fields that `params` may have."""
        return ()

    def states(self) -> Collection[str]:
        """The states in which the action is open."""
        return self.flow.live

    def is_decided_by_state(self) -> bool:
        """Whether the action applies to every entity in one of its states, so that `select` adds no condition."""
        return False

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows, of those in `states`, to which the action applies as far as a query can decide."""
        return rows

    @abstractmethod
    def apply(
        self, ids: list[str], *, actor: Actor, dry_run: bool = False, within: UnitOfWork | None = None
    ) -> list[Result]:
        """Apply the action to each entity and return the results in their order; a refusal changes only its own."""

    def try_out(self, ids: list[str], *, actor: Actor) -> list[Result]:
        """Apply the action and roll it back."""
        return self.apply(ids, actor=actor, dry_run=True)


class ActionForEach(BulkAction):
    """An action that is applied to one entity after the other, each in a savepoint."""

    def apply(
        self, ids: list[str], *, actor: Actor, dry_run: bool = False, within: UnitOfWork | None = None
    ) -> list[Result]:
        def apply_to_each(work: UnitOfWork) -> list[Result]:
            return [self._attempt(work, entity_id, actor) for entity_id in ids]

        return run_in_transaction(apply_to_each, within=within, dry_run=dry_run)

    def try_out(self, ids: list[str], *, actor: Actor) -> list[Result]:
        """Apply the action and roll it back; where it takes long, only to the first entities."""

        def try_each(work: UnitOfWork) -> list[Result]:
            ends, results = time.monotonic() + TRY_SECONDS, []
            for entity_id in ids:
                results.append(self._attempt(work, entity_id, actor))
                if time.monotonic() > ends:
                    break
            return results

        return run_in_transaction(try_each, dry_run=True)

    def _attempt(self, work: UnitOfWork, entity_id: str, actor: Actor) -> Result:
        try:
            return run_in_transaction(partial(self.apply_to_one, entity_id, actor), within=work)
        except Refusal as refusal:
            return Result(entity_id, refusal=refusal)

    @abstractmethod
    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        """Apply the action; raises the refusal of the single call."""
