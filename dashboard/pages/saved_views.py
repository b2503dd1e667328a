"""Saved views of a machine: named searches, private or shared."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST, require_safe

from statecore.dashboard import permissions, rendering
from statecore.dashboard.models import SavedView
from statecore.dashboard.templatetags.console import machine_url

from .lookup import get_machine
from .query_params import MAX_LENGTH, get_text

MAX_LISTED = 100


@require_safe
def saved_views(request: HttpRequest, collection: str) -> HttpResponse:
    flow = get_machine(request, collection)
    user = permissions.get_user(request)
    accessible = Q(owner=user) | Q(is_shared=True)
    found = SavedView.objects.filter(accessible, entity_type=flow.entity_type).select_related("owner").order_by("name")
    context = {
        "flow": flow,
        "views": found[:MAX_LISTED],
        "q": get_text(request, "q"),
        "me": user,
    }
    return rendering.render(request, "dashboard/parts/saved_views.html", context)


@require_POST
def save_view(request: HttpRequest, collection: str) -> HttpResponse:
    """Saving under an existing name replaces its search."""
    flow = get_machine(request, collection)
    permissions.require_writable()
    name = " ".join(request.POST.get("name", "").replace("\x00", "").split())[:80]
    query = request.POST.get("q", "").replace("\x00", "")[:MAX_LENGTH]
    if name:
        changed = {"query": query, "is_shared": request.POST.get("shared") == "on"}
        own = {"owner": permissions.get_user(request), "entity_type": flow.entity_type, "name": name}
        SavedView.objects.update_or_create(**own, defaults=changed)
    return HttpResponseRedirect(machine_url(flow.entity_type, query))


@require_POST
def delete_view(request: HttpRequest, collection: str, view_id: int) -> HttpResponse:
    flow = get_machine(request, collection)
    permissions.require_writable()
    view = get_object_or_404(SavedView, pk=view_id, entity_type=flow.entity_type)
    if view.owner_id != permissions.get_user(request).pk:
        raise PermissionDenied("This view belongs to another user.")
    view.delete()
    return HttpResponseRedirect(machine_url(flow.entity_type))
