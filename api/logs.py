"""The logs of tasks: agents append lines, and readers page through them or follow them (live/log_stream.py)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from msgspec import Meta

from statecore.delivery import log_news
from statecore.kernel.clock import rfc3339
from statecore.kernel.refusals import Invalid
from statecore.machines.task import Task
from statecore.read_models import task_logs
from statecore.records.proof import proof
from statecore.records.token import Token
from statecore.scheduling.log_statement import append_with_token
from statecore.scheduling.log_writer import MAX_LINES, Encoded, NewLine, append
from statecore.transitions.unit_of_work import UnitOfWork

from . import entities, known_tokens, throttling
from .access import agent_of
from .claims import MAX_ATTEMPT, Attempt
from .known_tokens import KnownTokenView
from .openapi.fields import TIME, Schema
from .openapi.operation import AFTER, SIZE, operation, query
from .openapi.schemas import COUNT, STRING, obj, page_of
from .query_params import QueryParams
from .request import Request
from .request_body import Body, convert_body, decode_json, raw_body, read_key, respond_once
from .responses import json_response, outcome_response

ATTEMPT: Schema = {**COUNT, "maximum": MAX_ATTEMPT}
LINE = obj(
    {
        "number": COUNT,
        "attempt": COUNT,
        "stream": {"enum": ["stdout", "stderr", "system"]},
        "text": STRING,
        "at": TIME,
    }
)


class SentLine(Body):
    """A line of text, the stream it was written to, and the time at the agent."""

    text: str
    stream: Literal["stdout", "stderr"] = "stdout"
    at: Annotated[datetime, Meta(tz=True)] | None = None

    def as_new_line(self) -> NewLine:
        try:
            return NewLine(self.stream, self.text, None if self.at is None else rfc3339(self.at))
        except OverflowError:
            raise Invalid({"at": ["is out of range."]}) from None


Lines = Annotated[list[SentLine], Meta(max_length=MAX_LINES)]
Offset = Annotated[int, Meta(ge=0, le=2**53)]


class LogFields(Body):
    """Lines of an attempt, and how many were sent before them, so that a repeated call stores none twice."""

    attempt: Attempt
    lines: Lines
    offset: Offset | None = None

    def list_lines(self) -> list[NewLine]:
        return [line.as_new_line() for line in self.lines]


class Logs(KnownTokenView):
    """The log of a task: read a page, or append lines to the attempt that the caller holds."""

    route = "tasks/<str:task_id>/logs/"
    flow = Task.flow

    @operation(
        "Read the log of a task, oldest lines first",
        {200: page_of(LINE)},
        params=[AFTER, SIZE, query("attempt", ATTEMPT, "Only the lines of this attempt.")],
        description="With `Accept: text/event-stream` the log is followed until the attempt ends: one event per "
        "line, whose id is the number of the line, and at last an event `end`. A line of the stream `system` "
        "names the lines that were dropped.",
        name="read_log",
        is_written=True,
    )
    def get(self, request: Request, task_id: str) -> HttpResponse:
        entities.get_entity(Task, task_id)
        params = self.params(request)
        after, size = params.get_number("after") or 0, params.get_page_size()
        lines = task_logs.read_after(task_id, after, size + 1, read_attempt(params))
        following = params.build_url(after=lines[size - 1].number) if len(lines) > size else None
        previous = params.build_url(after=max(0, after - size)) if after else None
        results = [line.as_dict() for line in lines[:size]]
        return json_response({"next": following, "previous": previous, "results": results})

    def respond_fast(self, request: Request, token: Token, task_id: str) -> HttpResponse | None:
        """Append with one statement; None if the call has to be handled like any other."""
        throttling.check(request, token)
        body = read_lenient(request)
        if read_key(request, body) is not None:
            return None
        fields = convert_body(body, LogFields)
        lines = Encoded.encode(fields.list_lines())
        shown, actor = proof(token, self.permission(request)), token.as_agent()
        following = append_with_token(shown, task_id, fields.attempt, lines, actor=actor, offset=fields.offset)
        if following is None:
            return None
        request.auth, request.user = token, token.user
        log_news.announce(task_id)
        return json_response({"next": following})

    @operation(
        "Append lines to the log of a task",
        {200: obj({"next": COUNT})},
        body=LogFields,
        refusals=(409,),
        description="Only by the holder of the attempt. `next` is the number of the line that is written next. With "
        "`offset`, the number of lines of the attempt that were sent before, a repeated call stores no line twice.",
        name="append_log",
        is_written=True,
    )
    def post(self, request: Request, task_id: str) -> HttpResponse:
        body, actor = read_lenient(request), agent_of(request)
        key = read_key(request, body)
        fields = convert_body(body, LogFields)

        def respond(work: UnitOfWork | None) -> dict[str, Any]:
            lines, offset = fields.list_lines(), fields.offset
            return {"next": append(task_id, fields.attempt, lines, actor=actor, offset=offset, within=work)}

        outcome = respond_once(key, actor, respond)
        known_tokens.remember(request.auth)
        log_news.announce(task_id)
        return outcome_response(outcome)


def read_attempt(params: QueryParams) -> int | None:
    attempt: int | None = params.get_number("attempt")
    if attempt is not None and attempt > MAX_ATTEMPT:
        raise Invalid({"attempt": [f"must be at most {MAX_ATTEMPT}."]})
    return attempt


def read_lenient(request: Request) -> dict[str, Any]:
    """Return the JSON object of the body even if its texts are not valid Unicode, as the output of a command may be."""
    raw = raw_body(request)
    try:
        body = decode_json(raw)
    except Invalid:
        try:
            body = json.loads(raw.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise
    if not isinstance(body, dict):
        raise Invalid({"body": ["must be an object."]})
    return body
