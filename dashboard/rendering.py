"""Rendering pages and htmx fragments, with the context that every page's frame needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import cached_property
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render as render_template
from django.utils.cache import patch_vary_headers

from statecore import sessions as session_checks
from statecore.delivery.sinks.alerts import SYSTEM_NAMES
from statecore.kernel import extensions
from statecore.kernel.flow import Flow
from statecore.read_models.distrust import list_alarms
from statecore.records import Alert
from statecore.records.alert import INTEGRITY

from . import navigation, second_factor, sessions
from .models import Preference
from .queries import approvals

PREFERENCE = "look"  # key in the session
PAGES = {"console", "admin"}
PARTS, ALONE = "dashboard/parts/", "dashboard/part.html"
POLLED = {"run_parts", "run_journal", "wall_heartbeat"}  # by scripts


def render(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """A part of a page that is opened by its own address, such as from history, is shown inside a whole page."""
    context = {**context, "frame": FrameContext(request)}
    if template.startswith(PARTS) and not is_fragment(request):
        context["part"], template = template, ALONE
    response = render_template(request, template, context, status=status)
    return set_fragment_headers(request, response)


def set_fragment_headers(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """A page and its fragments share a URL; without this the back button could show a cached fragment as the page."""
    patch_vary_headers(response, ["HX-Request"])
    if is_fragment(request):
        response["Cache-Control"] = "no-store"
    return response


def is_fragment(request: HttpRequest) -> bool:
    """Whether htmx requests a part of the page, as opposed to a whole page to restore from history."""
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


def is_background(request: HttpRequest) -> bool:
    """Whether a script sends the request on its own, so that it says nothing about the person at the browser."""
    match = request.resolver_match
    is_page = match is not None and match.app_name in PAGES and match.url_name not in POLLED
    return not is_page or is_fragment(request) or request.method == "HEAD"


def get_preference(request: HttpRequest) -> Preference:
    """Cached in the session, which every page reads anyway."""
    if not request.user.is_authenticated:
        return Preference()
    if PREFERENCE not in request.session:
        found = Preference.objects.filter(user=request.user).first() or Preference()
        sessions.keep(request, PREFERENCE, found.choices())
    return Preference(**request.session[PREFERENCE])


async def iterate_in_thread(batches: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yields each batch as soon as it is read, without blocking the event loop on the database."""
    while batch := await sync_to_async(lambda: next(batches, b""))():
        yield batch


class FrameContext:
    """The frame's data. Queries run only when a template uses them, so a fragment runs none."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.read_only = settings.STATECORE_READ_ONLY
        self.second_factor_is_off = second_factor.is_off()

    @property
    def preference(self) -> Preference:
        return get_preference(self.request)

    def pages(self) -> list[navigation.Page]:
        return navigation.list_pages(self.request.user)

    def machines(self) -> list[tuple[str, list[tuple[Flow, str]]]]:
        return navigation.group_machines(self.request.user)

    def extension_pages(self) -> list[tuple[str, str]]:
        """The names and titles of the pages of other packages that the user may see."""
        user: Any = self.request.user
        visible = [page for page in extensions.pages if user.has_perm(page.permission)]
        return [(f"console:{page.route.name}", page.title) for page in visible]

    def is_break_glass(self) -> bool:
        return self.request.user.is_authenticated and session_checks.is_break_glass(self.request.session)

    @cached_property
    def alarms(self) -> list[Alert]:
        return list_alarms(SYSTEM_NAMES)

    def unverified_data(self) -> bool:
        return any(alert.rule == INTEGRITY for alert in self.alarms)

    def degraded(self) -> list[str]:
        """What every page shows about the installation itself, such as a process that is missing."""
        return [alert.detail for alert in self.alarms if alert.rule != INTEGRITY]

    def approvals_to_decide(self) -> int:
        return approvals.count_to_decide(self.request.user)
