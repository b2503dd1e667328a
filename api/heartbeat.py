"""Heartbeats of workers, the most frequent call; the response lists the tasks to stop.

If this process knows the token from an earlier heartbeat, one statement checks the token and records the heartbeat. If
the statement changes no row, for example because the token was revoked, the call is handled like any other.
"""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import Meta

from statecore import scheduling
from statecore.delivery import log_news
from statecore.kernel.actors import Actor
from statecore.kernel.refusals import Invalid, Refusal
from statecore.kernel.validation import text_error
from statecore.machines.worker import Worker
from statecore.records.proof import proof
from statecore.records.token import Token
from statecore.scheduling import log_writer
from statecore.transitions.unit_of_work import UnitOfWork

from . import known_tokens, throttling
from .access import agent_of
from .claims import MAX_HELD, Attempt, HeldTask, TaskId
from .known_tokens import KnownTokenView
from .logs import Lines, Offset
from .openapi.fields import ANY_OBJECT, COMMAND, ID, text
from .openapi.operation import operation
from .openapi.schemas import COUNT, STRING, array, obj
from .request import Request
from .request_body import As, Body, RequestBody
from .responses import json_response

MAX_DETAIL = 500
COMMANDS = array(COMMAND)
APPENDED = obj({"id": ID, "next": COUNT, "refusal": ANY_OBJECT}, ["id"])
REPLY = obj({"state": STRING, "commands": COMMANDS, "logs": array(APPENDED)}, ["state", "commands"])


class Progress(Body):
    """How far the work is: a fraction from 0 to 1, and a line of text."""

    fraction: Annotated[float, Meta(ge=0, le=1)] | None = None
    detail: Annotated[str, Meta(max_length=MAX_DETAIL), As(text(MAX_DETAIL))] = ""

    def as_dict(self) -> dict[str, Any]:
        if complaint := text_error(self.detail, MAX_DETAIL):
            raise Invalid({"progress.detail": [complaint]})
        return {"fraction": self.fraction, "detail": self.detail}


class ReportedTask(Body):
    """A task that an agent works on, its attempt, and what the agent reports: progress, and lines of its log.

    `log_offset` is the number of lines of the attempt that were sent before.
    """

    id: TaskId
    attempt: Attempt
    progress: Progress | None = None
    logs: Lines | None = None
    log_offset: Offset | None = None


class HeartbeatFields(Body):
    """The attempts that the agent works on, if it reports them; the response names those to stop."""

    holds: Annotated[list[HeldTask], Meta(max_length=MAX_HELD)] | None = None
    tasks: Annotated[list[ReportedTask], Meta(max_length=MAX_HELD)] | None = None

    def list_attempts(self) -> set[tuple[str, int]] | None:
        if self.holds is None and self.tasks is None:
            return None
        held = {(held.task, held.attempt) for held in self.holds or ()}
        return held | {(reported.id, reported.attempt) for reported in self.tasks or ()}

    def list_progress(self) -> dict[tuple[str, int], dict[str, Any]]:
        return {(each.id, each.attempt): each.progress.as_dict() for each in self.tasks or () if each.progress}

    def list_logs(self) -> list[ReportedTask]:
        return [each for each in self.tasks or () if each.logs]


class Heartbeat(KnownTokenView):
    route = "workers/<str:worker_id>/heartbeat/"
    flow = Worker.flow

    def respond_fast(self, request: Request, token: Token, worker_id: str) -> HttpResponse | None:
        """Record the heartbeat with one statement; None if the call has to be handled like any other."""
        throttling.check(request, token)
        body = RequestBody(request, HeartbeatFields)
        if body.key is not None or body.fields.list_progress() or body.fields.list_logs():
            return None
        shown = proof(token, self.permission(request))
        response = scheduling.record_heartbeat_with_token(
            shown, worker_id, actor=token.as_agent(), holds=body.fields.list_attempts()
        )
        if response is None:
            return None
        request.auth, request.user = token, token.user
        return json_response(response)

    @operation(
        "Send a heartbeat",
        {200: REPLY},
        body=HeartbeatFields,
        description="`tasks` lists the tasks that the agent works on, with their progress if it is known; the response "
        "contains a command to stop each one that the worker no longer holds. `holds` is the same without progress. "
        "Without both, the response lists the tasks that were recently withdrawn from the worker. The response to "
        "`logs` is the number of the next line of each log, or why its lines were refused.",
        name="send_heartbeat",
        is_written=True,
    )
    def post(self, request: Request, worker_id: str) -> HttpResponse:
        body, actor = RequestBody(request, HeartbeatFields), agent_of(request)
        holds, progress, logs = body.fields.list_attempts(), body.fields.list_progress(), body.fields.list_logs()

        def respond(work: UnitOfWork | None) -> dict[str, Any]:
            made = scheduling.record_heartbeat(worker_id, actor=actor, holds=holds, progress=progress, within=work)
            return {**made, "logs": [_append(each, actor, work) for each in logs]} if logs else made

        response = body.respond_once(actor, respond)
        log_news.announce(*(each.id for each in logs))
        known_tokens.remember(request.auth)
        return response


def _append(reported: ReportedTask, actor: Actor, work: UnitOfWork | None) -> dict[str, Any]:
    """Append lines to the log of a task; a refusal of the lines is part of the response and not of the heartbeat."""
    lines = [line.as_new_line() for line in reported.logs or ()]
    task_id, attempt, offset = reported.id, reported.attempt, reported.log_offset
    try:
        return {
            "id": task_id,
            "next": log_writer.append(task_id, attempt, lines, actor=actor, offset=offset, within=work),
        }
    except Refusal as refusal:
        return {"id": task_id, "refusal": refusal.as_dict()}
