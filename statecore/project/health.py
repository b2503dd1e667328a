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

from statecore.delivery.sequencer import SEQUENCER, measure_lag
from statecore.delivery.sinks.alerts import list_problems
from statecore.kernel.clock import now
from statecore.project import preflight
from statecore.project.refusal import Refused
from statecore.read_models.distrust import is_any_data_unverified
from statecore.records import process_report
from statecore.records.leader_lease import list_missing
from statecore.storage import database_faults

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

    A load balancer should name the checks `database` and `migrations` only: a degraded site is better than no site.
    The reasons of the other checks name no address, so anyone may read them.
    """
    wanted = set(request.GET.getlist("check")) or set(CHECKS)
    failed = _find_failed(wanted)
    failed |= dict.fromkeys(sorted(wanted - set(CHECKS)), "there is no such check.")
    if not failed:
        return JsonResponse({"status": "ok"})
    status = "degraded" if NOT_ESSENTIAL.issuperset(failed) else "unavailable"
    reasons = {name: why for name, why in failed.items() if name in NOT_ESSENTIAL and why}
    body = {"status": status, "failed": list(failed), **({"reasons": reasons} if reasons else {})}
    return JsonResponse(body, status=503)


def _find_failed(wanted: set[str]) -> dict[str, str]:
    """Returns the reasons by check. Without the database the checks that need it fail unrun: each would wait for it."""
    is_reachable = wanted.isdisjoint(NEED_DATABASE) or _find_reason(preflight.check_database) is None
    failed: dict[str, str] = {}
    for name in (name for name in CHECKS if name in wanted):
        why = "" if not is_reachable and name in NEED_DATABASE else _find_reason(CHECKS[name])
        if why is not None:
            failed[name] = why
    return failed


def _find_reason(check: Callable[[], None]) -> str | None:
    """Returns why a check fails; empty if the reason is in the log only."""
    try:
        check()
    except Refused as refusal:
        log.warning("not_ready", why=refusal.sentence)
        return refusal.sentence
    except Error as error:
        log.warning("not_ready", why=str(error))
        return ""
    return None


def check_database() -> None:
    preflight.check_connection(connection)


def check_broker() -> None:
    preflight.check_broker(stores=True)


def check_migrations() -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise Refused("the database has migrations to apply: run `python manage.py migrate`.")


def check_sequencer() -> None:
    """A lag does not affect the journal, but read models and displays are outdated."""
    for what, seconds in measure_lag().items():
        if seconds > settings.STATECORE_SEQUENCER_LAG_SECONDS:
            raise Refused(f"the sequencer is behind: {what} has been waiting for {seconds:.0f} s.")


def check_leader() -> None:
    if SEQUENCER in list_missing():
        raise Refused("no sequencer leads: events get no positions, and pages and alerts are out of date.")


def check_system() -> None:
    """What one of the processes that watch has found, such as a late sweep, a full disk or a wrong clock."""
    if found := [each.detail for each in list_problems() if each.rule not in HAVE_CHECKS]:
        raise Refused(f"{'; '.join(found)}.")


def check_integrity() -> None:
    """The state that this installation reports cannot be trusted while such an alert is open."""
    if is_any_data_unverified():
        raise Refused("stored data does not verify: see the open alerts.")


def check_writes() -> None:
    """Pages and lists still work, but changes are refused."""
    if sentence := database_faults.find_recent():
        raise Refused(f"{sentence}.")


def check_processes() -> None:
    """The others continue, but what the process does is missing, such as the time-outs of beat."""
    at = now()
    problems = [each.describe_silence(at) for each in process_report.find_silent(at)]
    problems += [each.describe_restarts() for each in process_report.find_restarted(at)]
    if problems:
        raise Refused(f"{'; '.join(problems)}.")


CHECKS: dict[str, Callable[[], None]] = {
    "database": check_database,
    "broker": check_broker,
    "migrations": check_migrations,
    "writes": check_writes,
    "processes": check_processes,
    "leader": check_leader,
    "sequencer": check_sequencer,
    "system": check_system,
    "integrity": check_integrity,
}
NEED_DATABASE = {"database", "migrations", "processes", "leader", "sequencer", "system", "integrity"}
# The system rules whose checks run here too, also while no process watches.
HAVE_CHECKS = {"broker_unreachable", "no_leader", "process_restarts", "process_silent", "sequencer_behind"}
# Without these a process can work, but changes nothing, or what it shows is outdated or cannot be trusted.
NOT_ESSENTIAL = {"writes", "processes", "leader", "sequencer", "system", "integrity"}
