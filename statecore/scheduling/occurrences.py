"""The sweep of schedules: notices what is due, and submits a run for each occurrence exactly once.

Noticing writes the occurrences of many schedules together with their next times, in one transaction. Submitting writes
a run together with the outcome of its occurrence. After a crash between or within the two, the next sweep continues;
several sweeps at once skip what another one has locked.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import takewhile

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.models import OuterRef, Subquery

from ..journal import Event, accounts
from ..journal.accounts import Account, Action
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now, rfc3339
from ..kernel.ids import new_id
from ..kernel.refusals import DuplicateId, Refusal
from ..machines.run import FINAL, Run
from ..records.plan_template import PlanTemplate
from ..records.schedule import (
    REASON_LENGTH,
    UNREADABLE,
    CatchUp,
    Outcome,
    Overlap,
    Schedule,
    ScheduleOccurrence,
    iter_occurrences,
    record_occurrences,
)
from . import templates
from .plans import submit_plan

log = structlog.get_logger(__name__)

BATCH = 1_000  # schedules
RUNS = 100  # submitted by one sweep
MOST = 1_000  # occurrences of one schedule noticed at once; the next sweep continues
LATE = timedelta(minutes=5)  # an occurrence noticed later was missed because of an outage


def run_due() -> int:
    """Notice due occurrences and submit their runs; return how many runs."""
    while notice_due() == BATCH:
        pass
    due = ScheduleOccurrence.objects.filter(outcome=Outcome.DUE).order_by("at", "pk").values_list("pk", flat=True)
    return sum(_submit_or_fail(pk) for pk in due[:RUNS])


# Noticing


def notice_due() -> int:
    """Write the due occurrences of a batch of schedules and their next times; return the number of schedules."""
    at = now()
    with transaction.atomic():
        due = Schedule.objects.filter(next_at__isnull=False, next_at__lte=at).order_by("next_at", "pk")
        schedules = list(due.select_for_update(skip_locked=True)[:BATCH])
        notice(schedules, at)
        if schedules:
            with connection.cursor() as cursor:
                prepare = connection.ops.adapt_datetimefield_value
                rows = [(schedule.next_at and prepare(schedule.next_at), schedule.pk) for schedule in schedules]
                cursor.executemany(f"UPDATE {Schedule._meta.db_table} SET next_at = %s WHERE id = %s", rows)
    return len(schedules)


def notice(schedules: list[Schedule], at: datetime) -> None:
    """Write the due occurrences of locked schedules, and set their next times, which the caller stores."""
    record_occurrences([each for schedule in schedules for each in _list_due(schedule, at)])


def _list_due(schedule: Schedule, at: datetime) -> list[ScheduleOccurrence]:
    """Return the occurrences until now that the schedule catches up with, and set its next time.

    A schedule whose times can no longer be read is paused, and must not stop the others of its batch. The occurrence
    that was computed before is kept.
    """
    if (first := schedule.next_at) is None:
        return []
    try:
        return _read_due(schedule, first, at)
    except UNREADABLE as error:
        _pause(schedule, at, f"its times can no longer be read ({error}): change its time zone or cron, then resume it")
        return [ScheduleOccurrence(schedule=schedule, at=first)]


def _pause(schedule: Schedule, at: datetime, reason: str) -> None:
    """Pause a locked schedule on behalf of the system."""
    schedule.next_at, schedule.paused_at = None, at
    schedule.paused_by, schedule.pause_reason = THE_SYSTEM.name, reason[:REASON_LENGTH]
    schedule.save(update_fields=("next_at", "paused_at", "paused_by", "pause_reason"))
    facts = {"schedule": schedule.pk, "reason": schedule.pause_reason}
    accounts.record(Action.SCHEDULE_PAUSED, Account.of_actor(THE_SYSTEM), actor=THE_SYSTEM, facts=facts)
    log.error("schedule_paused", schedule=schedule.pk, reason=schedule.pause_reason)


def _read_due(schedule: Schedule, first: datetime, at: datetime) -> list[ScheduleOccurrence]:
    if schedule.catch_up == CatchUp.ALL:
        until = at if schedule.not_after is None else min(at, schedule.not_after)
        times = [first]
        for each in takewhile(lambda each: each <= until, iter_occurrences(schedule.cron, schedule.timezone, first)):
            if len(times) == MOST:
                break
            times.append(each)
        schedule.next_at = schedule.next_after(times[-1])
        return [ScheduleOccurrence(schedule=schedule, at=each) for each in times]
    latest = max(first, schedule.latest_until(at) or first)
    schedule.next_at = schedule.next_after(max(latest, at))
    is_missed = schedule.catch_up == CatchUp.NONE and at - latest > LATE
    detail = f"noticed late, with those since {rfc3339(first)}" if latest > first else "noticed late" * is_missed
    outcome = Outcome.MISSED if is_missed else Outcome.DUE
    return [ScheduleOccurrence(schedule=schedule, at=latest, outcome=outcome, detail=detail)]


# Submitting


def _submit_or_fail(pk: int) -> bool:
    """Return whether a run was submitted. An occurrence that cannot be handled fails; it must not stop the others."""
    try:
        return _submit(pk)
    except (OperationalError, InterfaceError):  # the database is away: the next sweep tries again
        raise
    except Exception as error:
        log.exception("schedule_failed", occurrence=pk)
        kind = "database error" if isinstance(error, DatabaseError) else type(error).__name__
        detail = f"internal error ({kind}); the log has the details"
        ScheduleOccurrence.objects.filter(pk=pk, outcome=Outcome.DUE).update(outcome=Outcome.FAILED, detail=detail)
        return False


def _submit(pk: int) -> bool:
    """Return whether a run was submitted."""
    with transaction.atomic():
        # The schedule is locked, so that another sweep does not submit its next occurrence beside this one.
        schedule = Schedule.objects.select_for_update(skip_locked=True).filter(occurrences=pk).first()
        occurrence = ScheduleOccurrence.objects.filter(pk=pk, outcome=Outcome.DUE).first()
        if schedule is None or occurrence is None:
            return False
        if running := _find_running(schedule):
            occurrence.outcome, occurrence.detail = Outcome.SKIPPED, f"run {running} had not ended"
        else:
            _submit_run(schedule, occurrence)
        occurrence.save()
    log.info("schedule_occurred", schedule=schedule.pk, outcome=occurrence.outcome, run=occurrence.run_id)
    return occurrence.outcome == Outcome.SUBMITTED


def _find_running(schedule: Schedule) -> str | None:
    if schedule.overlap == Overlap.ALLOW:
        return None
    runs = schedule.occurrences.filter(outcome=Outcome.SUBMITTED).values("run_id")
    running = Run.objects.filter(pk__in=runs).exclude(state__in=FINAL).first()
    return str(running.pk) if running else None


def _submit_run(schedule: Schedule, occurrence: ScheduleOccurrence) -> None:
    try:
        template = templates.get(schedule.template, schedule.template_version)
        run_id = _submit_once(schedule, occurrence, template)
    except Refusal as refusal:
        errors = refusal.facts.get("errors")
        detail = f"{refusal.code}: {refusal}" + (f" {errors}" if errors else "")
        occurrence.outcome, occurrence.detail = Outcome.FAILED, detail[:REASON_LENGTH]
    else:
        occurrence.outcome, occurrence.run_id = Outcome.SUBMITTED, run_id
        occurrence.template_version = template.version


def _submit_once(schedule: Schedule, occurrence: ScheduleOccurrence, template: PlanTemplate) -> str:
    """Submit the run and return its id, which others may have predicted and taken, also for a part of their runs."""
    expected = name_run(occurrence)
    if _is_submitted(expected, occurrence):
        return expected
    try:
        return _submit_plan(schedule, occurrence, template, expected)
    except DuplicateId as taken:
        log.warning("schedule_id_taken", schedule=schedule.pk, id=taken.facts.get("id", expected))
        occurrence.detail = f"an id that begins with {expected} is taken"
        return _submit_plan(schedule, occurrence, template, new_id(Run.flow.prefix))


def _submit_plan(schedule: Schedule, occurrence: ScheduleOccurrence, template: PlanTemplate, run_id: str) -> str:
    plan = templates.build_plan(template, schedule.parameters, run_id, occurrence.at)
    about = {"schedule": schedule.pk, "template": f"{template.template}@{template.version}"}
    plan["metadata"] = {**(plan.get("metadata") or {}), **about, "scheduled_at": rfc3339(occurrence.at)}
    submit_plan(plan, actor=THE_SYSTEM)
    return run_id


def _is_submitted(run_id: str, occurrence: ScheduleOccurrence) -> bool:
    """Whether the run of this occurrence exists: an occurrence that was restored from a backup may be older than it."""
    run = Run.objects.filter(pk=run_id).values_list("metadata", flat=True).first()
    if run is None or (run.get("schedule"), run.get("scheduled_at")) != _identify(occurrence):
        return False
    created = Event.objects.filter(entity_type=Run.flow.entity_type, entity_id=run_id, sequence=1)
    return created.filter(channel=THE_SYSTEM.channel).exists()


def _identify(occurrence: ScheduleOccurrence) -> tuple[str, str]:
    return occurrence.schedule_id, rfc3339(occurrence.at)


def name_run(occurrence: ScheduleOccurrence) -> str:
    """Return the id of the run, which follows from the schedule and the time."""
    shape = "%Y%m%dT%H%M%SZ" if occurrence.requested_by else "%Y%m%dT%H%MZ"
    return f"{occurrence.schedule_id}-{occurrence.at:{shape}}"


# Retention


def forget() -> int:
    """Delete old occurrences, except the last one of each schedule; return how many."""
    days = settings.STATECORE_OCCURRENCE_DAYS
    if not days:
        return 0
    last = ScheduleOccurrence.objects.filter(schedule=OuterRef("schedule")).order_by("-at").values("pk")[:1]
    old = ScheduleOccurrence.objects.filter(at__lt=now() - timedelta(days=days)).exclude(outcome=Outcome.DUE)
    return old.exclude(pk=Subquery(last)).delete()[0]
