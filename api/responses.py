"""Responses: JSON, and every refusal as application/problem+json (RFC 9457)."""

from __future__ import annotations

from typing import Any

import orjson
import structlog
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import Error, InterfaceError, OperationalError
from django.http import Http404, HttpResponse

from statecore.kernel.refusals import Invalid, NotFound, PermissionDenied, Refusal, TooLarge, Unavailable
from statecore.storage import database_errors, database_faults
from statecore.transitions import Outcome

from .refusals import InternalError, MethodNotAllowed, NotAuthenticated

JSON = "application/json"
REPLAYED = "Idempotent-Replayed"
PROBLEM_JSON = "application/problem+json"
CHALLENGE = 'Bearer realm="statecore"'
BASE = "/api/"
DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)

log = structlog.get_logger(__name__)


def json_response(body: Any, status: int = 200, **headers: str) -> HttpResponse:
    """Header names are given with underscores: `Retry_After`."""
    response = HttpResponse(orjson.dumps(body), status=status, content_type=JSON)
    for name, value in headers.items():
        response[name.replace("_", "-")] = value
    return response


def outcome_response(outcome: Outcome, body: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    response = json_response(outcome.as_dict() if body is None else body, status)
    if outcome.replayed:
        response[REPLAYED] = "true"
    return response


def problem(refusal: Refusal) -> HttpResponse:
    body = {
        "type": f"{BASE}v1/docs/#{refusal.code}",
        "title": title(refusal.code),
        "status": refusal.status,
        **refusal.as_dict(),
    }
    response = HttpResponse(orjson.dumps(body, default=str), status=refusal.status, content_type=PROBLEM_JSON)
    if "retry_after" in refusal.facts:
        response["Retry-After"] = str(refusal.facts["retry_after"])
    if refusal.status == MethodNotAllowed.status:
        response["Allow"] = ", ".join(refusal.facts["methods"])
    if refusal.status == NotAuthenticated.status:
        response["WWW-Authenticate"] = CHALLENGE
    return response


def title(code: str) -> str:
    return code.replace("_", " ").capitalize()


def as_refusal(error: Exception) -> Refusal:
    """Convert any exception to a refusal; an unexpected one is logged."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Http404):
        return NotFound(str(error) or "no such URL")
    if isinstance(error, DjangoPermissionDenied):
        return PermissionDenied(str(error) or "you may not do this")
    if isinstance(error, RequestDataTooBig):
        return TooLarge("the body is too large")
    if isinstance(error, SuspiciousOperation):
        return Invalid({"request": [str(error) or "was rejected."]})
    if (refusal := as_database_refusal(error)) is not None:
        return refusal
    log.error("unexpected_error", exc_info=error)
    return InternalError("internal error; the log has the details")


def as_database_refusal(error: BaseException) -> Refusal | None:
    """Return the refusal with the reason why the database failed, None for any other error."""
    refusal = database_errors.to_refusal(error) if isinstance(error, Error) else None
    if refusal is None and not isinstance(error, DATABASE_UNAVAILABLE):
        return None
    log.warning("database_unavailable", error=str(error))
    database_faults.note(error)
    return refusal or Unavailable("the database is unreachable: try again later", retry_after=1)
