"""Health checks for load balancers: `/healthz` (the process runs) and `/readyz` (it can work)."""

from collections.abc import Callable

import structlog
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from statecore.delivery.sequencer import measure_lag
from statecore.project import preflight
from statecore.project.refusal import Refused
from statecore.read_models.distrust import is_any_data_unverified

log = structlog.get_logger(__name__)


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Runs every check, or the named ones: `?check=database&check=migrations`.

    A load balancer should include neither `sequencer` nor `integrity`: a degraded site is better than no site.
    """
    wanted = set(request.GET.getlist("check")) or set(CHECKS)
    if failed := [*_find_failed(wanted), *sorted(wanted - set(CHECKS))]:
        status = "degraded" if NOT_ESSENTIAL.issuperset(failed) else "unavailable"
        return JsonResponse({"status": status, "failed": failed}, status=503)
    return JsonResponse({"status": "ok"})


def _find_failed(wanted: set[str]) -> list[str]:
    """Without the database the checks that need it fail unrun: each would wait for a pooled connection."""
    is_reachable = wanted.isdisjoint(NEED_DATABASE) or _passes(preflight.check_database)
    failed = set() if is_reachable else NEED_DATABASE
    return [name for name, check in CHECKS.items() if name in wanted and (name in failed or not _passes(check))]


def _passes(check: Callable[[], None]) -> bool:
    try:
        check()
    except Refused as refusal:
        why = refusal.sentence
    except Error as error:
        why = str(error)
    else:
        return True
    log.warning("not_ready", why=why)
    return False


def check_database() -> None:
    preflight.check_connection(connection)


def check_migrations() -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise Refused("the database has migrations to apply: run `python manage.py migrate`.")


def check_sequencer() -> None:
    """A lag does not affect the journal, but read models and displays are outdated."""
    for what, seconds in measure_lag().items():
        if seconds > settings.STATECORE_SEQUENCER_LAG_SECONDS:
            raise Refused(f"the sequencer is behind: {what} has been waiting for {seconds:.0f} s.")


def check_integrity() -> None:
    """The state that this installation reports cannot be trusted while such an alert is open."""
    if is_any_data_unverified():
        raise Refused("stored data does not verify: see the open alerts.")


CHECKS: dict[str, Callable[[], None]] = {
    "database": check_database,
    "broker": preflight.check_broker,
    "migrations": check_migrations,
    "sequencer": check_sequencer,
    "integrity": check_integrity,
}
NEED_DATABASE = {"database", "migrations", "sequencer", "integrity"}
# Without these a process can work, but what it shows is outdated or cannot be trusted.
NOT_ESSENTIAL = {"sequencer", "integrity"}
