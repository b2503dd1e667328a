"""Asking the door from a form: the words it is given, once only however often it is sent, and what it answers."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from dashboard import shell
from statecore.door import Outcome, RequestKey
from statecore.kernel.params import Param
from statecore.kernel.refusals import Refusal, StaleVersion


def new_key() -> str:
    """Stands in the form: sent twice by an impatient hand, it is one change."""
    return secrets.token_urlsafe(18)


def request_key(request: HttpRequest) -> RequestKey | None:
    key = request.POST.get("key", "")
    said = {name: request.POST.getlist(name) for name in sorted(request.POST) if name not in SECRET}
    digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()
    return RequestKey(key, request.path, digest) if key else None


SECRET = ("csrfmiddlewaretoken", "approver_password", "approver_code")


def expected_version(request: HttpRequest) -> int | None:
    given = request.POST.get("version", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None


def answered(outcome: Outcome) -> HttpResponse:
    """To the receipt, which stays for ever."""
    event = outcome.as_dict()["event"]
    return HttpResponseRedirect(reverse("console:receipt", args=[event["event_id"]]))


def attempt(ask: Callable[[], Outcome]) -> tuple[Outcome | None, Refusal | None]:
    try:
        return ask(), None
    except Refusal as refusal:
        return None, refusal


def refused(request: HttpRequest, template: str, context: dict[str, Any], refusal: Refusal) -> HttpResponse:
    """The same form with what was typed; after a conflict with the entity as it is now."""
    shown = {**context, "refusal": refusal, "is_stale": isinstance(refusal, StaleVersion)}
    return shell.render(request, template, shown, status=409 if refusal.status >= 409 else 422)


def read_fields(params: tuple[Param, ...], given: Mapping[str, str]) -> dict[str, Any]:
    """A form knows texts only; what a field should be is declared. What cannot be read is left to the door."""
    said = {param: given.get(f"field_{param.name}", "") for param in params}
    return {param.name: _value(param, text) for param, text in said.items() if text or param.required}


def _value(param: Param, text: str) -> Any:
    if param.type is str:
        return text
    try:
        return json.loads(text.lower() if param.type is bool else text)
    except (ValueError, RecursionError):
        return text
