"""Two questions of a load balancer: is the process alive, and can it work."""

from collections.abc import Callable

import structlog
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from statecore.project import preflight
from statecore.project.refusal import Refused
from statecore.sequencer import lag

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
    """All of it, or what is asked for: `?check=database&check=migrations`.

    A site whose screens are late is better than none, so who takes it out of service need not ask for the sequencer.
    """
    wanted = set(request.GET.getlist("check")) or set(CHECKS)
    if failed := [*_failed(wanted), *sorted(wanted - set(CHECKS))]:
        return JsonResponse({"status": "unavailable", "failed": failed}, status=503)
    return JsonResponse({"status": "ok"})


def _failed(wanted: set[str]) -> list[str]:
    """Without the database nothing is known of what is in it, and each who asks a pool would wait for it once more."""
    is_there = wanted.isdisjoint(IN_THE_DATABASE) or _holds(preflight.check_database)
    unknown = set() if is_there else IN_THE_DATABASE
    return [name for name, check in CHECKS.items() if name in wanted and (name in unknown or not _holds(check))]


def _holds(check: Callable[[], None]) -> bool:
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
    """The journal is as it should be even then, but what is shown of it is old."""
    for what, seconds in lag().items():
        if seconds > settings.STATECORE_SEQUENCER_LAG_SECONDS:
            raise Refused(f"the sequencer is behind: {what} waits since {seconds:.0f} s.")


CHECKS: dict[str, Callable[[], None]] = {
    "database": check_database,
    "broker": preflight.check_broker,
    "migrations": check_migrations,
    "sequencer": check_sequencer,
}
IN_THE_DATABASE = {"database", "migrations", "sequencer"}
