"""Saved views of a machine: a search with a name, for oneself or for everybody."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST, require_safe

from dashboard import rights, shell
from dashboard.models import SavedView
from dashboard.templatetags.console import machine_url

from .asked import LONGEST, text
from .found import machine_at

MOST = 100


@require_safe
def views(request: HttpRequest, collection: str) -> HttpResponse:
    flow = machine_at(request, collection)
    mine = Q(owner=rights.person(request)) | Q(is_shared=True)
    found = SavedView.objects.filter(mine, entity_type=flow.entity_type).select_related("owner").order_by("name")
    context = {"flow": flow, "views": found[:MOST], "q": text(request, "q"), "me": rights.person(request)}
    return shell.render(request, "dashboard/parts/views.html", context)


@require_POST
def save_view(request: HttpRequest, collection: str) -> HttpResponse:
    """The same name again is the same view with another search."""
    flow = machine_at(request, collection)
    rights.require_writable()
    name = " ".join(request.POST.get("name", "").replace("\x00", "").split())[:80]
    query = request.POST.get("q", "").replace("\x00", "")[:LONGEST]
    if name:
        changed = {"query": query, "is_shared": request.POST.get("shared") == "on"}
        own = {"owner": rights.person(request), "entity_type": flow.entity_type, "name": name}
        SavedView.objects.update_or_create(**own, defaults=changed)
    return HttpResponseRedirect(machine_url(flow.entity_type, query))


@require_POST
def drop_view(request: HttpRequest, collection: str, view_id: int) -> HttpResponse:
    flow = machine_at(request, collection)
    rights.require_writable()
    view = get_object_or_404(SavedView, pk=view_id, entity_type=flow.entity_type)
    if view.owner_id != rights.person(request).pk:
        raise PermissionDenied("this is somebody else's view")
    view.delete()
    return HttpResponseRedirect(machine_url(flow.entity_type))
