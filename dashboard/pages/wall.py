"""The wall: everything at a glance from five metres, without a mouse, all night."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from dashboard import rights, screens, shell
from dashboard.build import build
from dashboard.models import Screen
from dashboard.queries import counts, worries
from statecore import board
from statecore.kernel import registry
from statecore.kernel.flow import Flow

from .asked import text

MOST_ON_A_PAGE = 6  # at scale 1, and below
THEMES, SCALES = ("dark", "light"), ("0.8", "0.9", "1", "1.1", "1.25", "1.5")
SHORTEST, USUAL, LONGEST = 3, 20, 600


@never_cache
@require_safe
def wall(request: HttpRequest) -> HttpResponse:
    told, flows = board.stats(rights.sight(request)), _chosen(request)
    scale = text(request, "scale") if text(request, "scale") in SCALES else "1"
    tiles = [(counts.distribution(flow, told["counts"][flow.entity_type]), shell.name_of(flow)) for flow in flows]
    context: dict[str, Any] = {
        "pages": _pages(tiles, float(scale)),
        "worries": worries.figures(told, alerts="critical"),
        "stats": told,
        "theme": text(request, "theme") if text(request, "theme") in THEMES else THEMES[0],
        "scale": scale.replace(".", "-"),
        "seconds": _seconds(request),
        "build": build(),
    }
    return shell.render(request, "dashboard/wall.html", context)


@never_cache
@require_POST
def alive(request: HttpRequest) -> JsonResponse:
    """The wall says that it is there, and hears which build is current."""
    screen = Screen.objects.filter(user=rights.person(request), revoked_at=None).first()
    if screen is not None:
        screens.seen(screen)
    return JsonResponse({"build": build()})


def _chosen(request: HttpRequest) -> list[Flow]:
    """Those named, in that order, or all; only what this screen may see."""
    seen = {flow.entity_type: flow for flow in registry.flows() if rights.may(request.user, flow, "view")}
    named = [seen[name] for name in text(request, "machines").split(",") if name in seen]
    return named or sorted(seen.values(), key=lambda flow: (not shell.neighbours(flow), shell.depth(flow)))


def _pages(tiles: list[Any], scale: float) -> list[list[Any]]:
    """As few as hold them all, equally full: nobody looks at one tile for as long as at six.

    Larger letters take more room in both directions, and so does a tile.
    """
    most = min(MOST_ON_A_PAGE, int(MOST_ON_A_PAGE / scale**2))
    count = -(-len(tiles) // most) or 1
    size, larger = divmod(len(tiles), count)
    starts = [page * size + min(page, larger) for page in range(count + 1)]
    return [tiles[start:end] for start, end in pairwise(starts)]


def _seconds(request: HttpRequest) -> int:
    given = text(request, "seconds")
    return min(max(int(given), SHORTEST), LONGEST) if given.isascii() and given.isdigit() and len(given) < 5 else USUAL
