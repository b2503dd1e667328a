"""Calling the transition service from a form: idempotency key, expected version, fields, and the response."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from statecore.bulk import BulkAction
from statecore.dashboard import permissions, rendering
from statecore.kernel.refusals import Refusal, StaleVersion
from statecore.kernel.second_person import Policy
from statecore.kernel.transition import Param
from statecore.transitions import Category, Outcome, RequestKey

DRY_RUN_REASON = "Dry run for a preview; rolled back."
NOT_HASHED = ("csrfmiddlewaretoken",)
LOCAL_TIME = re.compile(r"[0-9-]{10}T[0-9:]{5,8}")


def make_key() -> str:
    """A hidden field of the form: submitted twice, it makes one change."""
    return secrets.token_urlsafe(18)


def read_request_key(request: HttpRequest) -> RequestKey | None:
    key = request.POST.get("key", "")
    fields = {name: request.POST.getlist(name) for name in sorted(request.POST) if name not in NOT_HASHED}
    digest = hashlib.sha256(json.dumps(fields).encode()).hexdigest()
    return RequestKey(key, request.path, digest) if key else None


def read_expected_version(request: HttpRequest) -> int | None:
    given = request.POST.get("version", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None


def call(service: Callable[[], Outcome]) -> Outcome | Refusal:
    try:
        return service()
    except Refusal as refusal:
        return refusal


def redirect_to_receipt(outcome: Outcome) -> HttpResponse:
    event = outcome.as_dict()["event"]
    return HttpResponseRedirect(reverse("console:receipt", args=[event["event_id"]]))


def redirect_after_force(outcome: Outcome) -> HttpResponse:
    """To the request, if another person decides."""
    if requested := outcome.as_dict().get("approval"):
        return HttpResponseRedirect(reverse("console:approval", args=[requested["id"]]))
    return redirect_to_receipt(outcome)


def preview_context(request: HttpRequest, outcome: Outcome, policies: list[Policy]) -> dict[str, Any]:
    """What a dry run has caused, and the policies that protect it."""
    return {**describe_preview(request, outcome), "policies": policies}


def describe_preview(request: HttpRequest, outcome: Outcome) -> dict[str, Any]:
    """What a dry run has caused, as far as the user may see it."""
    visible = permissions.visible_types(request)
    caused = [entry for entry in outcome.caused if entry.entity_type in visible]
    return {
        "preview": outcome.as_dict()["event"],
        "caused": caused,
        "has_unseen": len(caused) < len(outcome.caused),
    }


def render_refusal(request: HttpRequest, template: str, context: dict[str, Any], refusal: Refusal) -> HttpResponse:
    """The same form with what the user typed; after a conflict, with the entity's current state."""
    shown = {**context, "refusal": refusal, "is_stale": isinstance(refusal, StaleVersion)}
    return rendering.render(request, template, shown, status=409 if refusal.status >= 409 else 422)


def read_fields(params: tuple[Param, ...], given: Mapping[str, str]) -> dict[str, Any]:
    """Converts a form's strings to the declared types; a value that cannot be converted is passed on as it is.

    The transition service refuses it with a message that names the field.
    """
    texts = {param: given.get(f"field_{param.name}", "") for param in params}
    return {param.name: _convert(param, text) for param, text in texts.items() if text or param.required}


def fill_in(action: BulkAction) -> BulkAction:
    """The action with texts for the fields that the user has yet to fill in."""
    params = {param.name: DRY_RUN_REASON for param in action.fields() if param.required}
    category = str(Category.OTHER) if "category" in action.takes else ""
    return replace(action, request=replace(action.request, reason=DRY_RUN_REASON, category=category, params=params))


def read_time(text: str) -> str | None:
    """The time of a field; without a script it has no zone and means UTC."""
    return (f"{text}Z" if LOCAL_TIME.fullmatch(text) else text) or None


def _convert(param: Param, text: str) -> Any:
    if param.type is str:
        return read_time(text) or "" if param.name == "until" else text
    try:
        return json.loads(text.lower() if param.type is bool else text)
    except (ValueError, RecursionError):
        return text
