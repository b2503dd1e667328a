"""The address that Prometheus scrapes: for whoever has the token, and for staff."""

import os
import secrets

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from statecore.derive.metrics import EntityStates
from statecore.derive.standing import Standing
from statecore.project.metrics_folder import VARIABLE
from statecore.sequencer.gauge import SequencerLag
from statecore.sinks.gauge import OpenAlerts
from statecore.stuck.gauge import StuckEntities

SCHEME = "Bearer "

STANDING: tuple[Standing, ...] = (EntityStates(), OpenAlerts(), SequencerLag(), StuckEntities())
where_everything_stands = CollectorRegistry()
for gauge in STANDING:
    where_everything_stands.register(gauge)


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponseBase:
    """Without a token in the settings there is none to guess: then it is for staff alone."""
    if given := request.headers.get("Authorization"):
        return _told() if _is_the_token(given) else _unauthorized()
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if not request.user.is_staff:
        raise PermissionDenied
    return _told()


def _is_the_token(given: str) -> bool:
    token = settings.STATECORE_METRICS_TOKEN
    return bool(token) and secrets.compare_digest(given.encode(), f"{SCHEME}{token}".encode())


def _unauthorized() -> HttpResponse:
    return HttpResponse("not authenticated", status=401, headers={"WWW-Authenticate": "Bearer"})


def _told() -> HttpResponse:
    body = generate_latest(_what_happened()) + generate_latest(where_everything_stands)
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


def _what_happened() -> CollectorRegistry:
    """The counts of all processes, or of this one where it runs by itself."""
    if VARIABLE not in os.environ:
        return REGISTRY
    added_up = CollectorRegistry()
    MultiProcessCollector(added_up)  # type: ignore[no-untyped-call]
    return added_up
