"""From an address to a machine and an entity, or to a page that says there is none."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest

from dashboard import rights
from statecore.kernel import registry
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow


def machine_at(request: HttpRequest, collection: str, action: str = "view") -> Flow:
    flow = next((flow for flow in registry.flows() if flow.collection == collection), None)
    if flow is None:
        raise Http404(f"there is no machine {collection}")
    rights.require(request, flow, action)
    return flow


def entity_at(request: HttpRequest, collection: str, entity_id: str, action: str = "view", *related: str) -> Any:
    flow = machine_at(request, collection, action)
    rows = flow.model.objects.select_related(*related) if related else flow.model.objects
    found: Entity | None = rows.filter(pk=entity_id).first()
    if found is None:
        raise Http404(f"there is no {flow.entity_type} {entity_id}")
    return found
