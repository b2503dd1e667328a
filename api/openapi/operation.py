"""The declaration of a call at the method that serves it, and its description in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.http import HttpResponse

from statecore.journal import KEY_LENGTH
from statecore.records.token import Scope

from ..access import SAFE
from ..filters import Filter, derive_filters
from ..pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, list_orderings
from ..request_body import Body
from ..responses import JSON, PROBLEM_JSON
from .fields import Schema
from .schemas import COUNT, STRING, array, body_schema, ref

BYTES = "application/octet-stream"
# The member of an operation that declares the method of the clients.
CALL = "x-statecore-call"
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


# A value, or what computes it from the view, whose machine is known only to the route.
Schemas = Schema | Callable[[Any], Schema]
Method = TypeVar("Method", bound=Callable[..., HttpResponse])


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The declaration of a call: what it takes and returns. Its scope and permission are attributes of the view."""

    summary: str | Callable[[Any], str]
    # By status; None for a response without JSON.
    responses: Mapping[int, Schemas | None]
    # The fields of the body, from which its schema is derived, or the schema itself.
    body: type[Body] | Schemas | None = None
    # The query parameters, and headers beside those that every call takes.
    params: Sequence[Schema] | Callable[[Any], Sequence[Schema]] = ()
    # Statuses of refusals beside those of every call.
    refusals: tuple[int, ...] = ()
    description: str = ""
    # Responses that are not JSON, by content type.
    other_types: Mapping[str, Schema] = field(default_factory=dict)
    # Takes any bytes instead of JSON.
    takes_bytes: bool = False
    # The method of the clients that performs the call; empty if they have none.
    name: str = ""
    # Whether that method is written by hand, because it takes or returns another form than the call.
    is_written: bool = False
    # The argument of that method which is the body. By default, the fields of the body are arguments.
    argument: str = ""
    # Whether a list is always complete: the method returns it and does not yield its pages.
    is_whole: bool = False

    def list_query_params(self, view: Any) -> list[str]:
        return [each["name"] for each in _resolve(self.params, view) if each["in"] == "query"]


def _resolve(value: Any, view: Any) -> Any:
    return value(view) if callable(value) else value


def operation(
    summary: str | Callable[[Any], str], responses: Mapping[int, Schemas | None], **details: Any
) -> Callable[[Method], Method]:
    """Declare the call that a method of a view serves; `details` are the other fields of Operation.

    The routes have the path of the view, and the OpenAPI document, its page, the reference and the tests of the clients
    and tools derive from the declaration.
    """

    def declare(method: Method) -> Method:
        method.operation = Operation(summary=summary, responses=responses, **details)  # type: ignore[attr-defined]
        return method

    return declare


def find_operation(view: Any, method: str) -> Operation | None:
    """Return the declaration of a method, such as `get`, of a view or its class."""
    found: Operation | None = getattr(getattr(view, method.lower(), None), "operation", None)
    return found


def query(name: str, schema: Schema, description: str = "") -> Schema:
    param: Schema = {"name": name, "in": "query", "schema": schema}
    return {**param, "description": description} if description else param


def required(param: Schema) -> Schema:
    return {**param, "required": True}


def repeatable(name: str, values: list[str] | None = None) -> Schema:
    each = {"type": "string", "enum": values} if values else TEXT_PARAM
    return query(name, {"type": "array", "items": each, "minItems": 1, "maxItems": 100})


TEXT_PARAM: Schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^\\u0000]+$"}


def list_params(model: Any) -> list[Schema]:
    """Return the parameters of a list: its pages, orders and filters."""
    filters = [query(name, _filter_param(each)) for name, each in derive_filters(model).items()]
    ordering = query("ordering", {"type": "string", "enum": list(list_orderings(model))})
    return [CURSOR, SIZE, ordering, *filters]


def _filter_param(found: Filter) -> Schema:
    schema = dict(found.schema)
    return {**array(schema), "minItems": 1, "maxItems": 100} if found.repeatable else schema


POSITION: Schema = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
SIZE = query(
    "page_size",
    {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
    f"Results per page; {DEFAULT_PAGE_SIZE} by default.",
)
CURSOR = query("cursor", STRING, "Opaque; part of the URLs in `next` and `previous`.")
AFTER = query("after", {"type": "integer", "minimum": 0, "maximum": 10**9 - 1}, "Return results after this number.")


def render(call: Operation, view: Any, method: str, tag: str, name: str, path_params: list[str]) -> dict[str, Any]:
    is_post = method == "POST"
    rendered: dict[str, Any] = {
        "operationId": name,
        "summary": _resolve(call.summary, view),
        "description": "\n\n".join(each for each in (call.description, describe_rights(view, method)) if each),
        "tags": [tag],
        "security": [{"bearer": []}, {"session": []}],
        "parameters": [
            *(
                {"name": each, "in": "path", "required": True, "schema": _path_schema(view, each)}
                for each in path_params
            ),
            *_resolve(call.params, view),
            *([KEY] if is_post else []),
        ],
        "responses": {
            str(status): _render_response(_resolve(schema, view), is_post=is_post)
            for status, schema in call.responses.items()
        },
    }
    if call.name:
        names = ("name", "argument", "is_whole", "is_written")
        rendered[CALL] = {name: getattr(call, name) for name in names}
    for content_type, schema in call.other_types.items():
        rendered["responses"]["200"].setdefault("content", {})[content_type] = {"schema": schema}
    if call.body is not None:
        body = body_schema(call.body) if isinstance(call.body, type) else _resolve(call.body, view)
        rendered["requestBody"] = {"content": {JSON: {"schema": body}}}
    if call.takes_bytes:
        rendered["requestBody"] = {"required": True, "content": {BYTES: {"schema": BINARY}}}
    for status in _list_refusal_statuses(call, method):
        rendered["responses"].setdefault(str(status), _render_refusal(status))
    return rendered


def _path_schema(view: Any, name: str) -> Schema:
    return COUNT if f"<int:{name}>" in view.route else STRING


def describe_rights(view: Any, method: str) -> str:
    """Return the scope and the permission that a call needs."""
    scopes = (Scope.READ,) if method in SAFE else view.writes_need
    permission = view.read_permission if method in SAFE else view.write_permission
    scope = " or ".join(f"`{scope}`" for scope in scopes)
    return f"Takes a token of the scope {scope}{f' and the permission `{permission}`' if permission else ''}."


def _render_response(schema: Schema | None, *, is_post: bool) -> Schema:
    made: Schema = {"description": "Success."}
    if is_post:
        made["headers"] = REPLAYED
    return made if schema is None else {**made, "content": {JSON: {"schema": schema}}}


def _list_refusal_statuses(call: Operation, method: str) -> list[int]:
    statuses = [*ALWAYS, *(WITH_BODY if method != "GET" else ())]
    statuses += call.refusals
    return sorted(statuses + ([422] if method == "POST" else []))


def _render_refusal(status: int) -> Schema:
    made: Schema = {"description": "Refusal.", "content": {PROBLEM_JSON: {"schema": ref(f"Problem{status}")}}}
    return {**made, "headers": RETRY_AFTER} if status in (429, 503) else made
