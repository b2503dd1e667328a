"""Descriptions of the calls of templates and schedules, by view."""

from __future__ import annotations

from typing import Any

from statecore.api import schedules
from statecore.records.plan_template import DESCRIPTION_LENGTH
from statecore.records.schedule import REASON_LENGTH, SCHEDULE_ID_LENGTH, CatchUp, Outcome, Overlap
from statecore.scheduling import templates

from .fields import ANY_OBJECT, ID, TIME, Schema, nullable, text
from .operation import Operation
from .operations import SIZE, query
from .schemas import COUNT, FLAG, STRING, body_schema, obj, page_of

VERSION: Schema = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
PARAMETERS: Schema = {
    "type": "object",
    "description": "The declaration of each parameter by name.",
    "additionalProperties": obj(
        {
            "type": {"type": "string", "enum": list(templates.TYPES)},
            "default": {},
            "choices": {"type": "array", "items": {}},
            "description": STRING,
        },
        ["type"],
        closed=True,
    ),
}
PLAN: Schema = {
    "type": "object",
    "description": 'A plan without id and start. `{"$parameter": "NAME"}` becomes the value of a parameter and '
    "`${NAME}` within a text its text; `${run}` and `${scheduled_at}` are known in every template.",
    "examples": [{"phase": "phase-1", "workstreams": [{"id": "docs", "tasks": [{"id": "build"}]}]}],
}
TEMPLATE: Schema = obj(
    {
        "id": STRING, "version": COUNT, "description": STRING, "parameters": PARAMETERS, "plan": PLAN,
        "created_by": STRING, "created_at": TIME,
    }
)  # fmt: skip
OUTCOME: Schema = {"type": "string", "enum": list(Outcome.values)}
OCCURRENCE: Schema = obj(
    {
        "at": TIME, "outcome": OUTCOME, "run": nullable(STRING), "template_version": nullable(COUNT),
        "requested_by": nullable(STRING), "detail": nullable(STRING),
    }
)  # fmt: skip
CATCH_UP: Schema = {
    "type": "string",
    "enum": list(CatchUp.values),
    "description": "What happens after an outage: all occurrences that were missed, only the latest, or none.",
}
OVERLAP: Schema = {
    "type": "string",
    "enum": list(Overlap.values),
    "description": "What happens while the run of an earlier occurrence has not ended.",
}
SCHEDULE: Schema = obj(
    {
        "id": STRING, "template": STRING, "template_version": nullable(COUNT), "cron": STRING, "timezone": STRING,
        "parameters": ANY_OBJECT, "catch_up": CATCH_UP, "overlap": OVERLAP, "not_after": nullable(TIME),
        "paused": FLAG, "pause_reason": nullable(STRING), "paused_by": nullable(STRING),
        "next": {"type": "array", "items": TIME}, "last": {"anyOf": [OCCURRENCE, {"type": "null"}]},
        "created_by": STRING, "created_at": TIME,
    }
)  # fmt: skip
REASON: Schema = {**text(REASON_LENGTH), "minLength": 1}
FIELDS: dict[str, Schema] = {
    "template": ID,
    "template_version": nullable(VERSION),
    "cron": {**text(100), "description": "Minute, hour, day, month and weekday."},
    "timezone": {**text(64), "description": "Such as UTC or Europe/Berlin."},
    "parameters": ANY_OBJECT,
    "catch_up": CATCH_UP,
    "overlap": OVERLAP,
    "not_after": nullable(TIME),
}
AFTER = query("after", ID, "Return those with a higher id.")


def describe_templates(view: Any, method: str) -> Operation:
    if method == "GET":
        return Operation("List templates in their newest version", {200: page_of(TEMPLATE)}, parameters=[AFTER, SIZE])
    parts = {"id": ID, "plan": PLAN, "parameters": PARAMETERS, "description": text(DESCRIPTION_LENGTH)}
    return Operation(
        "Store a plan template",
        {201: TEMPLATE},
        body=body_schema(schedules.Templates.Fields, **parts),
        conflicts=True,
        description="Ids of workstreams, tasks and gates are names within the plan: each run gets ids of its own.",
    )


def describe_template(view: Any, method: str) -> Operation:
    version = query("version", {"type": "integer", "minimum": 0, "maximum": 10**9}, "The newest one by default.")
    return Operation("Read a version of a template", {200: TEMPLATE}, parameters=[version])


def describe_versions(view: Any, method: str) -> Operation:
    if method == "GET":
        before = query("before", {"type": "integer", "minimum": 0, "maximum": 10**9}, "Return lower versions.")
        return Operation(
            "List the versions of a template, newest first", {200: page_of(TEMPLATE)}, parameters=[before, SIZE]
        )
    parts = {"plan": PLAN, "parameters": PARAMETERS, "description": text(DESCRIPTION_LENGTH)}
    body = body_schema(schedules.TemplateVersions.Fields, **parts)
    return Operation("Store the next version of a template", {201: TEMPLATE}, body=body, conflicts=True)


def describe_schedules(view: Any, method: str) -> Operation:
    if method == "GET":
        template = query("template", ID, "Only the schedules of this template.")
        return Operation("List schedules by id", {200: page_of(SCHEDULE)}, parameters=[template, AFTER, SIZE])
    own_id = nullable({**ID, "maxLength": SCHEDULE_ID_LENGTH})
    return Operation(
        "Create a schedule",
        {201: SCHEDULE},
        body=body_schema(schedules.Schedules.Fields, id=own_id, **FIELDS),
        conflicts=True,
        description="The runs are submitted by the system, each exactly once: its id is `SCHEDULE-TIME`.",
    )


def describe_schedule(view: Any, method: str) -> Operation:
    if method == "GET":
        return Operation("Read one schedule with its next times", {200: SCHEDULE})
    body = body_schema(schedules.Schedule.Fields, **FIELDS)
    return Operation("Change a schedule", {200: SCHEDULE}, body=body, body_is_optional=True, conflicts=True)


def describe_pause(view: Any, method: str) -> Operation:
    body = body_schema(schedules.Pause.Fields, reason=REASON)
    return Operation("Pause a schedule", {200: SCHEDULE}, body=body, conflicts=True)


def describe_resume(view: Any, method: str) -> Operation:
    body = body_schema(schedules.Resume.Fields, reason=REASON)
    return Operation(
        "Resume a schedule", {200: SCHEDULE}, body=body, conflicts=True,
        description="It continues with the next occurrence after now.",
    )  # fmt: skip


def describe_run(view: Any, method: str) -> Operation:
    return Operation(
        "Let a schedule occur now",
        {202: OCCURRENCE},
        body=body_schema(schedules.RunNow.Fields),
        body_is_optional=True,
        conflicts=True,
    )


def describe_occurrences(view: Any, method: str) -> Operation:
    chosen = [query("outcome", OUTCOME), query("before", TIME, "Return earlier occurrences."), SIZE]
    return Operation("List the occurrences of a schedule, newest first", {200: page_of(OCCURRENCE)}, parameters=chosen)


DESCRIPTIONS: dict[type, Any] = {
    schedules.Templates: describe_templates,
    schedules.Template: describe_template,
    schedules.TemplateVersions: describe_versions,
    schedules.Schedules: describe_schedules,
    schedules.Schedule: describe_schedule,
    schedules.Pause: describe_pause,
    schedules.Resume: describe_resume,
    schedules.RunNow: describe_run,
    schedules.Occurrences: describe_occurrences,
}
