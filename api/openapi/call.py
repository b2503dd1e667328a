"""One call of the API, described: what it takes, what it tells, how it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from api.bodies import JSON
from api.problems import CONTENT_TYPE
from statecore.journal import KEY_LENGTH

from .fields import Schema
from .schemas import WORD, ref

ALWAYS = (400, 401, 403, 404, 429, 500, 503)
WITH_A_BODY = (413, 415)
KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same body is answered once and told again; with another body it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH, "pattern": "^[!-~]+$"},
}
REPLAYED: Schema = {"Idempotent-Replayed": {"description": "`true` for an answer told again.", "schema": WORD}}
RETRY_AFTER: Schema = {"Retry-After": {"description": "Seconds until it is worth asking again.", "schema": WORD}}


@dataclass
class Call:
    summary: str
    answers: dict[int, Schema | None]
    body: Schema | None = None
    body_is_optional: bool = False
    parameters: list[Schema] = field(default_factory=list)
    conflicts: bool = False
    # What it asks for may have been retired.
    retires: bool = False
    description: str = ""
    # What the answer may be beside JSON, or instead of it: by its type.
    other_types: dict[str, Schema] = field(default_factory=dict)


def operation(call: Call, method: str, tag: str, name: str, in_path: list[str]) -> dict[str, Any]:
    is_post = method == "POST"
    made: dict[str, Any] = {
        "operationId": name,
        "summary": call.summary,
        "tags": [tag],
        "security": [{"bearer": []}, {"session": []}],
        "parameters": [
            *({"name": each, "in": "path", "required": True, "schema": WORD} for each in in_path),
            *call.parameters,
            *([KEY] if is_post else []),
        ],
        "responses": {str(status): _answer(schema, is_post=is_post) for status, schema in call.answers.items()},
    }
    for content_type, schema in call.other_types.items():
        made["responses"]["200"].setdefault("content", {})[content_type] = {"schema": schema}
    if call.description:
        made["description"] = call.description
    if call.body is not None:
        made["requestBody"] = {"required": not call.body_is_optional, "content": {JSON: {"schema": call.body}}}
    for status in _refusals(call, method):
        made["responses"].setdefault(str(status), _refusal(status))
    return made


def _answer(schema: Schema | None, *, is_post: bool) -> Schema:
    made: Schema = {"description": "Done."}
    if is_post:
        made["headers"] = REPLAYED
    return made if schema is None else {**made, "content": {JSON: {"schema": schema}}}


def _refusals(call: Call, method: str) -> list[int]:
    found = [*ALWAYS, *(WITH_A_BODY if method != "GET" else ())]
    found += [409] if call.conflicts else []
    found += [410] if call.retires else []
    return sorted(found + ([422] if method == "POST" else []))


def _refusal(status: int) -> Schema:
    made: Schema = {"description": "Refused.", "content": {CONTENT_TYPE: {"schema": ref(f"Problem{status}")}}}
    return {**made, "headers": RETRY_AFTER} if status in (429, 503) else made
