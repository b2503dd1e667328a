"""Resolving the machine and the entity that a URL names; 404 when they do not exist, 403 when they are not visible."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest

from statecore.dashboard import labels, permissions
from statecore.kernel import registry
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow


def get_machine(request: HttpRequest, collection: str, action: str = "view") -> Flow:
    flow = next((flow for flow in registry.flows() if flow.collection == collection), None)
    if flow is None:
        raise Http404(f"There is no machine named {collection}.")
    permissions.require_action(request, flow, action)
    return flow


def get_entity(request: HttpRequest, collection: str, entity_id: str, action: str = "view") -> Any:
    flow = get_machine(request, collection, action)
    found: Entity | None = flow.model.objects.filter(pk=entity_id).first()
    if found is None:
        raise Http404(f"There is no {labels.noun(flow.entity_type)} with the id {entity_id}.")
    return found
