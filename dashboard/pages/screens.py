"""The wall displays: which there are, which are blind; letting one in, throwing one out."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST

from dashboard import rights, shell
from dashboard import screens as walls
from dashboard.models import Screen
from statecore.kernel import registry

ADD, CHANGE = "dashboard.add_screen", "dashboard.change_screen"
MOST = 200
LONGEST_ADDRESS = 500


@require_http_methods(["GET", "HEAD", "POST"])
def screens(request: HttpRequest) -> HttpResponse:
    rights.require_permission(request, "dashboard.view_screen")
    if request.method == "POST":
        return _let_in(request)
    shown = Screen.objects.exclude(paired_at=None).select_related("user").order_by("revoked_at", "name")[:MOST]
    context = {
        "rows": [(screen, walls.is_blind(screen)) for screen in shown],
        "may_add": request.user.has_perm(ADD) and not shell.Shell(request).read_only,
        "may_revoke": request.user.has_perm(CHANGE) and not shell.Shell(request).read_only,
        "machines": [flow.entity_type for flow in registry.flows()],
        "pair_address": request.build_absolute_uri(reverse("console:pairing")),
    }
    return shell.render(request, "dashboard/screens.html", context)


def _let_in(request: HttpRequest) -> HttpResponse:
    rights.require_permission(request, ADD)
    rights.require_writable()
    name = request.POST.get("name", "").replace("\x00", "").strip()[:80]
    screen = walls.pair(request.POST.get("code", ""), name, _address(request), rights.person(request).get_username())
    if screen is None:
        messages.error(
            request, "No screen shows this code; it may be older than a quarter of an hour.", extra_tags="bad"
        )
    else:
        messages.success(request, f"{screen} is in: it shows the wall within a few seconds.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:screens"))


def _address(request: HttpRequest) -> str:
    chosen = {name: request.POST.get(name, "").strip()[:200] for name in ("machines", "theme", "scale", "seconds")}
    given = {name: value for name, value in chosen.items() if value}
    wall = reverse("console:wall")
    address = f"{wall}?{urlencode(given)}" if given else wall
    # Nothing that the wall understands is so long.
    return address if len(address) <= LONGEST_ADDRESS else wall


@require_POST
def revoke_screen(request: HttpRequest, screen_id: int) -> HttpResponse:
    rights.require_permission(request, CHANGE)
    rights.require_writable()
    screen = get_object_or_404(Screen, pk=screen_id)
    walls.revoke(screen)
    messages.success(request, f"{screen} is out: it shows nothing any more.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:screens"))
