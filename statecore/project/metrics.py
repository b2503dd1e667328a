"""The `/metrics` endpoint, for callers with the metrics token and for staff."""

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

from statecore.delivery.sequencer.lag import SequencerLag
from statecore.delivery.sinks.alerts import OpenAlerts
from statecore.operations.build_metrics import BuildInfo, DatabaseConnections
from statecore.operations.process_metrics import (
    DiskFree,
    LeaderTerm,
    LeaderUp,
    ProcessMemory,
    ProcessRestarts,
    ProcessUp,
    RestoreDrillAge,
    SweepAge,
    SweepSeconds,
)
from statecore.operations.task_metrics import QueueDepth
from statecore.project.metrics_folder import VARIABLE
from statecore.read_models.database_gauge import DatabaseGauge
from statecore.read_models.metrics import EntityStates
from statecore.read_models.stuck.overdue import StuckEntities
from statecore.read_models.webhooks import WebhookCounts, WebhookLag

SCHEME = "Bearer "

DATABASE_GAUGES: tuple[DatabaseGauge, ...] = (
    BuildInfo(), DatabaseConnections(), DiskFree(), EntityStates(), LeaderTerm(), LeaderUp(), OpenAlerts(),
    ProcessMemory(), ProcessRestarts(), ProcessUp(), QueueDepth(), RestoreDrillAge(), SequencerLag(), StuckEntities(),
    SweepAge(), SweepSeconds(), WebhookCounts(), WebhookLag(),
)  # fmt: skip
database_registry = CollectorRegistry()
for gauge in DATABASE_GAUGES:
    database_registry.register(gauge)


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponseBase:
    """Without a configured token no token is accepted, and only staff have access."""
    if given := request.headers.get("Authorization"):
        return _render() if _is_the_token(given) else _unauthorized()
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if not request.user.is_staff:
        raise PermissionDenied
    return _render()


def _is_the_token(given: str) -> bool:
    token = settings.STATECORE_METRICS_TOKEN
    return bool(token) and secrets.compare_digest(given.encode(), f"{SCHEME}{token}".encode())


def _unauthorized() -> HttpResponse:
    return HttpResponse("not authenticated", status=401, headers={"WWW-Authenticate": "Bearer"})


def _render() -> HttpResponse:
    body = generate_latest(_process_registry()) + generate_latest(database_registry)
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


def _process_registry() -> CollectorRegistry:
    """Returns the counts of all processes, or of this process in single-process mode."""
    if VARIABLE not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry
