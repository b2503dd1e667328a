"""The base of the views that every machine has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.http import HttpResponse

from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow
from statecore.transitions import Outcome

from . import entities
from .access import scopes_to_fire
from .openapi.fields import Schema
from .request_body import Body
from .responses import outcome_response
from .views import ApiView


def of_flow(build: Callable[[Flow], Schema]) -> Callable[[Any], Schema]:
    """Return a schema that depends on the machine of the view."""
    return lambda view: build(view.flow)


def state_name(flow: Flow) -> Schema:
    return {"type": "string", "enum": list(flow.states)}


def noun(view: Any) -> str:
    return str(view.flow.entity_type).replace("_", " ")


class MachineView(ApiView):
    """A view of one machine; `flow` is set by the route."""

    flow: ClassVar[Flow]
    model: ClassVar[type[Entity]]
    # The path below that of the collection.
    call: ClassVar[str] = ""
    # Whether it fires triggers, which also integrators may do where a machine lets them.
    fires: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "flow" in cls.__dict__:
            cls.model = cls.flow.model
            if cls.fires:
                cls.writes_need = scopes_to_fire(cls.flow)

    def with_links(self, row: dict[str, Any]) -> dict[str, Any]:
        return entities.with_links(self.model, [row])[0]

    def transition_response(self, outcome: Outcome) -> HttpResponse:
        """Return the event, its consequences and the entity; only a machine with links costs another query."""
        body = outcome.as_dict()
        (entity,) = entities.with_links(self.model, [dict(body["entity"])])
        return outcome_response(outcome, {**body, "entity": entity})

    def created_response(self, outcome: Outcome) -> HttpResponse:
        """Return the new entity with its event and consequences."""
        fields = outcome.as_dict()
        events = {name: fields[name] for name in ("event", "caused", "caused_count")}
        body = {**self.with_links(dict(fields["entity"])), **events}
        return outcome_response(outcome, body, 201)


class Firing(Body):
    """The fields of a call beside those of the trigger, which the transition service validates."""

    trigger: str
    reason: str = ""
    metadata: dict[str, Any] = {}
    expected_version: int | None = None
    dry_run: bool = False
