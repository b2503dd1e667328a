"""Every refusal as application/problem+json (RFC 9457), whoever said it: a door, the framework or the database."""

from __future__ import annotations

import orjson
import structlog
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse

from statecore.kernel.refusals import Invalid, NotFound, PermissionDenied, Refusal

from .refusals import InternalError, MethodNotAllowed, NotAuthenticated, TooLarge, Unavailable

CONTENT_TYPE = "application/problem+json"
CHALLENGE = 'Bearer realm="statecore"'
BASE = "/api/"
DATABASE_IS_AWAY = (OperationalError, InterfaceError)

log = structlog.get_logger(__name__)


def problem(refusal: Refusal) -> HttpResponse:
    body = {
        "type": f"{BASE}v1/docs/#{refusal.code}",
        "title": title(refusal.code),
        "status": refusal.status,
        **refusal.as_dict(),
    }
    response = HttpResponse(orjson.dumps(body, default=str), status=refusal.status, content_type=CONTENT_TYPE)
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
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Http404):
        return NotFound(str(error) or "there is nothing at this address")
    if isinstance(error, DjangoPermissionDenied):
        return PermissionDenied(str(error) or "you may not do this")
    if isinstance(error, RequestDataTooBig):
        return TooLarge("the body is too large")
    if isinstance(error, SuspiciousOperation):
        return Invalid({"request": [str(error) or "is not one this server takes."]})
    if isinstance(error, DATABASE_IS_AWAY):
        log.warning("database_unavailable", error=str(error))
        return Unavailable("the database cannot be reached now: try again", retry_after=1)
    log.error("unexpected_error", exc_info=error)
    return InternalError("something went wrong here; it was written to the log")
