"""Every page of the console with what it takes to see it; a route that is missing here fails a test."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.urls import reverse

from tests.dashboard.scene import Scene, last_forced

ANYBODY, VIEW, OPERATE, OVERRIDE = "anybody", "view", "operate", "override"


class Page(NamedTuple):
    name: str
    takes: str
    args: Any = ()


TASK = ("tasks", "scene-t1")
PAGES = [
    Page("overview", ANYBODY),
    Page("start", ANYBODY),
    Page("stuck", ANYBODY),
    Page("tokens", ANYBODY),
    Page("second_factor", ANYBODY),
    Page("wall", ANYBODY),
    Page("screens", VIEW),
    Page("alerts", VIEW),
    Page("overrides", VIEW),
    Page("audit", VIEW),
    Page("audit_export", VIEW),
    Page("audit_verify", VIEW),
    Page("machine", VIEW, ("tasks",)),
    Page("entity", VIEW, TASK),
    Page("why", VIEW, TASK),
    Page("views", VIEW, ("tasks",)),
    Page("proof", VIEW, TASK),
    Page("run", VIEW, ("scene",)),
    Page("run_journal", VIEW, ("scene",)),
    Page("receipt", VIEW, "forced event"),
    Page("matching", OPERATE, ("tasks",)),
    Page("move", OPERATE, ("runs", "scene", "run_canceled")),
    Page("retry", OPERATE, TASK),
    Page("force", OVERRIDE, TASK),
]
# These take a POST, or are for who is not in yet.
NOT_PAGES = {
    *("login", "code", "enrol", "logout", "preferences", "acknowledge", "approve", "take_notice", "revoke"),
    *("save_view", "drop_view", "select", "bulk", "bulk_job"),
    *("revoke_screen", "alive", "pairing", "paired"),
}
MAY = {
    "nobody": {ANYBODY},
    "viewer": {ANYBODY, VIEW},
    "operator": {ANYBODY, VIEW, OPERATE},
    "supervisor": {ANYBODY, VIEW, OPERATE, OVERRIDE},
    "superuser": {ANYBODY, VIEW, OPERATE, OVERRIDE},
}


def address(place: Page, scene: Scene) -> str:
    args = (last_forced(),) if place.args == "forced event" else place.args
    return reverse(f"console:{place.name}", args=args)
