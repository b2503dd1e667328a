"""Schedules: created, changed, paused, resumed and run by operators. Each change is an entry of the account journal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSimError
from django.db import IntegrityError, transaction

from ..journal import accounts
from ..journal.accounts import Action
from ..kernel.actors import Actor
from ..kernel.clock import now, rfc3339
from ..kernel.ids import is_valid_id, new_id
from ..kernel.refusals import DuplicateId, Invalid, NotFound, TerminalState
from ..kernel.validation import text_error
from ..records.schedule import (
    REASON_LENGTH,
    SCHEDULE_ID_LENGTH,
    CatchUp,
    Outcome,
    Overlap,
    Schedule,
    ScheduleOccurrence,
    iter_occurrences,
)
from . import templates
from .occurrences import notice

CRON = re.compile(r"\S+( \S+){4}")
FIELDS = ("template", "template_version", "cron", "timezone", "parameters", "catch_up", "overlap", "not_after")


def create(fields: Mapping[str, Any], *, actor: Actor) -> Schedule:
    """Create a schedule; raises Invalid, DuplicateId and PermissionDenied."""
    templates.require(actor, "add", "schedule")
    schedule_id = fields.get("id") or new_id("s")
    if not is_valid_id(schedule_id) or len(schedule_id) > SCHEDULE_ID_LENGTH:
        raise Invalid({"id": [f"must be 1 to {SCHEDULE_ID_LENGTH} of A-Z a-z 0-9 . _ : -"]})
    schedule = Schedule(id=schedule_id, created_by=actor.name, created_at=now())
    _apply(schedule, {"timezone": "UTC", **{name: fields[name] for name in FIELDS if name in fields}})
    schedule.next_at = schedule.next_after(now())
    try:
        with transaction.atomic():
            schedule.save(force_insert=True)
            _record(Action.SCHEDULE_CREATED, schedule, actor)
    except IntegrityError as error:
        raise DuplicateId(f"the id {schedule_id!r} is taken", id=schedule_id) from error
    return schedule


def change(schedule_id: str, fields: Mapping[str, Any], *, actor: Actor) -> Schedule:
    """Change a schedule. Occurrences that are due already stay; the next one follows from the new times."""
    templates.require(actor, "change", "schedule")
    with transaction.atomic():
        schedule, at = lock(schedule_id), now()
        while schedule.next_at is not None and schedule.next_at <= at:
            notice([schedule], at)
        _apply(schedule, fields)
        if schedule.paused_at is None:
            schedule.next_at = schedule.next_after(at)
        schedule.save()
        _record(Action.SCHEDULE_CHANGED, schedule, actor, changed=sorted(fields))
    return schedule


def pause(schedule_id: str, *, reason: str, actor: Actor) -> Schedule:
    """Let nothing occur until the schedule is resumed, except what an operator requests. What is due is left out."""
    templates.require(actor, "change", "schedule")
    _check_reason(reason)
    with transaction.atomic():
        schedule = lock(schedule_id)
        if schedule.paused_at is not None:
            raise TerminalState(f"{schedule} is paused already", state="paused")
        schedule.paused_at, schedule.paused_by, schedule.pause_reason = now(), actor.name, reason
        schedule.next_at = None
        schedule.save()
        due = schedule.occurrences.filter(outcome=Outcome.DUE, requested_by="")
        due.update(outcome=Outcome.SKIPPED, detail="the schedule was paused")
        _record(Action.SCHEDULE_PAUSED, schedule, actor, reason=reason)
    return schedule


def resume(schedule_id: str, *, reason: str, actor: Actor) -> Schedule:
    """Continue with the next occurrence after now; those of the pause are left out."""
    templates.require(actor, "change", "schedule")
    _check_reason(reason)
    with transaction.atomic():
        schedule = lock(schedule_id)
        if schedule.paused_at is None:
            raise TerminalState(f"{schedule} is not paused", state="active")
        schedule.paused_at, schedule.paused_by, schedule.pause_reason = None, "", ""
        _check_times(schedule)
        schedule.next_at = schedule.next_after(now())
        schedule.save()
        _record(Action.SCHEDULE_RESUMED, schedule, actor, reason=reason)
    return schedule


def run_now(schedule_id: str, *, actor: Actor) -> ScheduleOccurrence:
    """Let the schedule occur once more, now; the sweep submits the run."""
    templates.require(actor, "change", "schedule")
    with transaction.atomic():
        schedule = lock(schedule_id)
        made = ScheduleOccurrence.objects.create(schedule=schedule, at=now(), requested_by=actor.name)
        _record(Action.SCHEDULE_RUN, schedule, actor, at=rfc3339(made.at))
    return made


def get(schedule_id: str) -> Schedule:
    found = Schedule.objects.filter(pk=schedule_id).first() if is_valid_id(schedule_id) else None
    if found is None:
        raise NotFound(f"there is no schedule {schedule_id!r}")
    return found


def lock(schedule_id: str) -> Schedule:
    get(schedule_id)
    return Schedule.objects.select_for_update().get(pk=schedule_id)


# Fields


def _apply(schedule: Schedule, fields: Mapping[str, Any]) -> None:
    """Set the fields, and check all of them together."""
    if unknown := fields.keys() - set(FIELDS):
        raise Invalid({name: ["is not a field that can be set."] for name in sorted(unknown)})
    for name, value in fields.items():
        setattr(schedule, name, value)
    if isinstance(schedule.not_after, datetime):
        try:
            schedule.not_after = schedule.not_after.astimezone(UTC)
        except OverflowError:
            raise Invalid({"not_after": ["is out of range."]}) from None
    _check_times(
        schedule,
        catch_up=_find_choice_error(schedule.catch_up, CatchUp.values),
        overlap=_find_choice_error(schedule.overlap, Overlap.values),
    )
    try:
        template = templates.get(schedule.template, schedule.template_version)
    except NotFound as refusal:
        raise Invalid({"template": [f"{refusal}."]}) from refusal
    templates.complete_values(template.parameters, schedule.parameters)


def _check_times(schedule: Schedule, **others: str | None) -> None:
    errors = {"timezone": _find_zone_error(schedule.timezone), **others}
    if not errors["timezone"]:
        errors["cron"] = _find_cron_error(schedule.cron, schedule.timezone)
    if found := {name: [error] for name, error in errors.items() if error}:
        raise Invalid(found)


def _find_zone_error(name: Any) -> str | None:
    if not isinstance(name, str) or name not in available_timezones():
        return "must be a time zone such as UTC or Europe/Berlin."
    ZoneInfo(name)
    return None


def _find_choice_error(value: Any, choices: list[str]) -> str | None:
    return None if value in choices else f"must be one of {', '.join(choices)}."


def _find_cron_error(cron: Any, timezone: str) -> str | None:
    if not isinstance(cron, str) or len(cron) > 100 or CRON.fullmatch(cron) is None:
        return "must have five parts: minute, hour, day, month and weekday."
    try:
        return None if next(iter_occurrences(cron, timezone, now()), None) else "never occurs."
    except CronSimError as error:
        return f"cannot be read: {error}."


def _check_reason(reason: str) -> None:
    if error := text_error(reason, REASON_LENGTH) if reason.strip() else "may not be empty.":
        raise Invalid({"reason": [error]})


def _record(action: Action, schedule: Schedule, actor: Actor, **facts: Any) -> None:
    about = {"schedule": schedule.pk, **{name: _as_fact(getattr(schedule, name)) for name in FIELDS}, **facts}
    accounts.record(action, accounts.Account.of_actor(actor), actor=actor, facts=about)


def _as_fact(value: Any) -> Any:
    return rfc3339(value) if isinstance(value, datetime) else value
