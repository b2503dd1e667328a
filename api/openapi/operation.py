"""The description of one call: its parameters, body, responses and refusals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from statecore.journal import KEY_LENGTH

from ..responses import JSON, PROBLEM_JSON
from .fields import Schema
from .schemas import STRING, ref

BYTES = "application/octet-stream"
BINARY: Schema = {"type": "string", "format": "binary"}
ALWAYS = (400, 401, 403, 404, 429, 500, 503)
WITH_BODY = (413, 415)
KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeated key with the same body returns the stored response; with another body it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH, "pattern": "^[!-~]+$"},
}
REPLAYED: Schema = {"Idempotent-Replayed": {"description": "`true` for a stored response.", "schema": STRING}}
RETRY_AFTER: Schema = {"Retry-After": {"description": "Seconds to wait before the next attempt.", "schema": STRING}}


@dataclass
class Operation:
    summary: str
    responses: dict[int, Schema | None]
    body: Schema | None = None
    body_is_optional: bool = False
    parameters: list[Schema] = field(default_factory=list)
    conflicts: bool = False
    may_be_archived: bool = False
    description: str = ""
    # Responses that are not JSON, by content type.
    other_types: dict[str, Schema] = field(default_factory=dict)
    # Takes any bytes instead of JSON.
    takes_bytes: bool = False
    # Statuses of further refusals.
    refusals: tuple[int, ...] = ()


def render(call: Operation, method: str, tag: str, name: str, path_params: list[str]) -> dict[str, Any]:
    is_post = method == "POST"
    rendered: dict[str, Any] = {
        "operationId": name,
        "summary": call.summary,
        "tags": [tag],
        "security": [{"bearer": []}, {"session": []}],
        "parameters": [
            *({"name": each, "in": "path", "required": True, "schema": STRING} for each in path_params),
            *call.parameters,
            *([KEY] if is_post else []),
        ],
        "responses": {
            str(status): _render_response(schema, is_post=is_post) for status, schema in call.responses.items()
        },
    }
    for content_type, schema in call.other_types.items():
        rendered["responses"]["200"].setdefault("content", {})[content_type] = {"schema": schema}
    if call.description:
        rendered["description"] = call.description
    if call.body is not None:
        rendered["requestBody"] = {"required": not call.body_is_optional, "content": {JSON: {"schema": call.body}}}
    if call.takes_bytes:
        rendered["requestBody"] = {"required": True, "content": {BYTES: {"schema": BINARY}}}
    for status in _list_refusal_statuses(call, method):
        rendered["responses"].setdefault(str(status), _render_refusal(status))
    return rendered


def _render_response(schema: Schema | None, *, is_post: bool) -> Schema:
    made: Schema = {"description": "Success."}
    if is_post:
        made["headers"] = REPLAYED
    return made if schema is None else {**made, "content": {JSON: {"schema": schema}}}


def _list_refusal_statuses(call: Operation, method: str) -> list[int]:
    statuses = [*ALWAYS, *(WITH_BODY if method != "GET" else ())]
    statuses += [409] if call.conflicts else []
    statuses += [410] if call.may_be_archived else []
    statuses += call.refusals
    return sorted(statuses + ([422] if method == "POST" else []))


def _render_refusal(status: int) -> Schema:
    made: Schema = {"description": "Refusal.", "content": {PROBLEM_JSON: {"schema": ref(f"Problem{status}")}}}
    return {**made, "headers": RETRY_AFTER} if status in (429, 503) else made
