"""The wall: key figures and a tile for each machine, for displays that run day and night."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from statecore.dashboard import displays, navigation, permissions, rendering
from statecore.dashboard.assets import get_build_id
from statecore.dashboard.models import Display
from statecore.dashboard.queries import counts, key_figures
from statecore.kernel.flow import Flow
from statecore.machines.task import Task
from statecore.read_models import board

from .query_params import get_text

# Tiles per page at scale 1 and below.
LAYOUTS = {"1x1": 1, "2x1": 2, "3x2": 6, "3x3": 9}
NAMED_INCIDENTS = 3
THEMES, SCALES = ("dark", "light"), ("0.8", "0.9", "1", "1.1", "1.25", "1.5")
MIN_SECONDS, DEFAULT_SECONDS, MAX_SECONDS = 3, 20, 600


@never_cache
@require_safe
def wall(request: HttpRequest) -> HttpResponse:
    stats, flows = board.get_stats(permissions.visible_types(request)), _chosen_machines(request)
    scale = get_text(request, "scale") if get_text(request, "scale") in SCALES else "1"
    tiles = [
        (counts.get_distribution(flow, stats["counts"][flow.entity_type]), navigation.machine_name(flow))
        for flow in flows
    ]
    context: dict[str, Any] = {
        "pages": _split_into_pages(tiles, float(scale), LAYOUTS.get(get_text(request, "layout"), LAYOUTS["3x2"])),
        "figures": key_figures.list_figures(stats, alerts="critical"),
        "stats": stats,
        "most": NAMED_INCIDENTS,
        "theme": get_text(request, "theme") if get_text(request, "theme") in THEMES else THEMES[0],
        "scale": scale.replace(".", "-"),
        "seconds": _read_seconds(request),
        "build": get_build_id(),
    }
    return rendering.render(request, "dashboard/wall.html", context)


@never_cache
@require_POST
def heartbeat(request: HttpRequest) -> JsonResponse:
    """Records that the display is online and returns the current build."""
    display = Display.objects.filter(user=permissions.get_user(request), revoked_at=None).first()
    if display is not None:
        displays.record_contact(display)
    return JsonResponse({"build": get_build_id()})


def _chosen_machines(request: HttpRequest) -> list[Flow]:
    """The machines named in the URL, in that order, or all; limited to those the display may see."""
    visible = {flow.entity_type: flow for flow in permissions.visible_machines(request.user)}
    named = [visible[name] for name in get_text(request, "machines").split(",") if name in visible]
    return named or sorted(visible.values(), key=_wall_order)


def _wall_order(flow: Flow) -> tuple[bool, tuple[bool, int]]:
    """Tasks come first, because displays are for following the work."""
    return flow is not Task.flow, navigation.menu_order(flow)


def _split_into_pages(tiles: list[Any], scale: float, most: int) -> list[list[Any]]:
    """As few pages as possible, evenly filled, so that no page shows a single tile.

    A tile grows with the scale in both directions.
    """
    limit = max(1, min(most, int(most / scale**2)))
    count = -(-len(tiles) // limit) or 1
    size, larger = divmod(len(tiles), count)
    starts = [page * size + min(page, larger) for page in range(count + 1)]
    return [tiles[start:end] for start, end in pairwise(starts)]


def _read_seconds(request: HttpRequest) -> int:
    given = get_text(request, "seconds")
    if not (given.isascii() and given.isdigit() and len(given) < 5):
        return DEFAULT_SECONDS
    return min(max(int(given), MIN_SECONDS), MAX_SECONDS)
