"""The actions that change the incidents on which entities hang, and not the entities."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from ..kernel.actors import Actor
from ..kernel.refusals import GuardFailed, PermissionDenied, Unmet
from ..kernel.transition import Param, validate_params
from ..records import incident as incidents
from ..records.incident import IncidentEntity
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from .base import BulkAction
from .results import Result


class Acknowledge(BulkAction):
    """Acknowledge the open incidents on which the entities hang, each once."""

    portion = 500
    at_once = 500

    def check_request(self, actor: Actor) -> None:
        super().check_request(actor)
        if not actor.has_permission(incidents.CHANGE_PERMISSION):
            raise PermissionDenied(f"{actor.name} may not change incidents", required=incidents.CHANGE_PERMISSION)

    def states(self) -> Collection[str]:
        return self.flow.states

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(pk__in=self.find_open().values("entity_id"))

    def find_open(self) -> QuerySet[IncidentEntity]:
        """The rows of the entities of this machine whose incidents the action changes."""
        return self.find_entities().filter(incident__acknowledged_at=None)

    def find_entities(self) -> QuerySet[IncidentEntity]:
        return IncidentEntity.objects.filter(entity_type=self.flow.entity_type, incident__resolved_at=None)

    def apply(
        self, ids: list[str], *, actor: Actor, dry_run: bool = False, within: UnitOfWork | None = None
    ) -> list[Result]:
        def change(_work: UnitOfWork) -> list[Result]:
            hanging = dict(self.find_entities().filter(entity_id__in=ids).values_list("entity_id", "incident_id"))
            open_ids = set(self.find_open().filter(entity_id__in=ids).values_list("incident_id", flat=True))
            for incident_id in sorted(open_ids):
                self.change_incident(incident_id, actor)
            return [self._describe(pk, hanging.get(pk), open_ids) for pk in ids]

        return run_in_transaction(change, within=within, dry_run=dry_run)

    def change_incident(self, incident_id: int, actor: Actor) -> None:
        incidents.acknowledge(incident_id, actor.name, note=self.request.reason)

    def _describe(self, entity_id: str, incident_id: int | None, changed: set[int]) -> Result:
        if incident_id is None:
            about = f"{self.flow.entity_type} {entity_id} hangs on no open incident"
            return Result(entity_id, refusal=GuardFailed(self.request.action, [Unmet("no_incident", about)]))
        return Result(entity_id, incident_id in changed)


class Assign(Acknowledge):
    """Set the owner of the incidents; an empty name removes it."""

    takes = ("params",)

    def check_request(self, actor: Actor) -> None:
        super().check_request(actor)
        validate_params(self.fields(), self.request.params)

    def fields(self) -> tuple[Param, ...]:
        return (Param("owner", str, nullable=False, required=False),)

    def find_open(self) -> QuerySet[IncidentEntity]:
        return self.find_entities().exclude(incident__owner=self.owner)

    @property
    def owner(self) -> str:
        return str(self.request.params.get("owner", ""))

    def change_incident(self, incident_id: int, actor: Actor) -> None:
        incidents.assign(incident_id, actor.name, self.owner, note=self.request.reason)
