"""A transport that knows only the OpenAPI document: it checks each request and answers with an example response."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Any

import httpx
import jsonschema_rs

from statecore.api.openapi.examples import build_example, resolve
from statecore.api.openapi.inspector import select_used
from statecore.api.openapi.views import build_document

JSON = "application/json"
CONTENT = b"content"
DIGEST = f"sha-256=:{b64encode(sha256(CONTENT).digest()).decode()}:"
ANYTHING = {"any": "value"}


@cache
def list_operations() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    """Returns method, path and operation, the most specific paths first, as the server tries them."""
    found = []
    for path, methods in build_document()["paths"].items():
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "/?")
        found += [(method.upper(), pattern, operation) for method, operation in methods.items()]
    return sorted(found, key=lambda each: each[1].pattern.count("[^/]+"))


class Contract(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Raises AssertionError for a request that the document does not describe; keeps the names of the operations."""

    def __init__(self) -> None:
        self.called: list[dict[str, Any]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        return self._answer(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        operation = find_operation(request)
        self.called.append(operation)
        check_params(request, operation)
        check_body(request, operation)
        status = min(operation["responses"])
        content = operation["responses"][status].get("content", {})
        if JSON in content:
            return httpx.Response(int(status), json=build_response(content[JSON]["schema"]))
        headers = {"Content-Type": next(iter(content), "text/plain"), "Repr-Digest": DIGEST}
        return httpx.Response(int(status), content=CONTENT, headers=headers)


def find_operation(request: httpx.Request) -> dict[str, Any]:
    path = request.url.path
    for method, pattern, operation in list_operations():
        if method == request.method and pattern.fullmatch(path):
            return operation
    raise AssertionError(f"{request.method} {path} is no call of the API")


def check_params(request: httpx.Request, operation: dict[str, Any]) -> None:
    declared = {each["name"]: each for each in operation["parameters"] if each["in"] == "query"}
    given = request.url.params
    assert set(given) <= declared.keys(), f"{operation['operationId']} has no {set(given) - declared.keys()}"
    assert {name for name, each in declared.items() if each.get("required")} <= set(given)
    # A key makes a repeated call take effect once.
    assert "Idempotency-Key" not in request.headers or request.method == "POST"


def check_body(request: httpx.Request, operation: dict[str, Any]) -> None:
    body = operation.get("requestBody")
    if body is None:
        assert not request.content
    elif JSON in body["content"] and (request.content or body["required"]):
        schema = body["content"][JSON]["schema"]
        used = select_used(build_document()["components"]["schemas"], {"": {"": schema}})
        validator = jsonschema_rs.validator_for({"components": {"schemas": used}, **schema})
        given = httpx.Response(200, content=request.content).json()
        assert validator.is_valid(given), f"{operation['operationId']} does not take {given}"


def build_response(schema: dict[str, Any]) -> Any:
    """Returns an example with every member; a list has one result and is the last page."""
    schemas = build_document()["components"]["schemas"]
    schema = resolve(schema, schemas)
    if "allOf" in schema:
        return {name: value for part in schema["allOf"] for name, value in build_response(part).items()}
    if "anyOf" in schema:
        return build_response(schema["anyOf"][0])
    if schema.get("type") == "array":
        return [build_response(schema["items"])]
    if properties := schema.get("properties"):
        made = {name: build_response(each) for name, each in properties.items()}
        return {**made, "next": None, "previous": None} if "results" in made and "next" in made else made
    if "additionalProperties" in schema:
        return {"name": build_response(schema["additionalProperties"])}
    return ANYTHING if schema.keys() <= {"description"} else build_example(schema, schemas)
