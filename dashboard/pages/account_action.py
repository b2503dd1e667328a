"""The page on which an administrator reviews and confirms a change of accounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse

from statecore.dashboard import confirmation, permissions, rendering
from statecore.kernel.refusals import Refusal

TEMPLATE = "dashboard/account_action.html"


@dataclass(frozen=True, kw_only=True)
class Action:
    title: str
    button: str
    # The page that the action belongs to, by its name in the breadcrumbs and its address.
    parent: str
    back: str
    # What it changes, as sentences.
    consequences: list[str] = field(default_factory=list)
    warning: str = ""
    is_dangerous: bool = False
    # Fields of the form that the previous page has filled in.
    hidden: list[tuple[str, str]] = field(default_factory=list)
    # A template with further fields, and what it needs.
    fields: str = ""
    context: dict[str, Any] = field(default_factory=dict)


def respond(request: HttpRequest, action: Action, perform: Callable[[], HttpResponse]) -> HttpResponse:
    """Show the page, or perform the action once it is confirmed; a refusal shows the page again."""
    if request.method != "POST" or "preview" in request.POST:
        return _render(request, action)
    permissions.require_writable()
    if error := confirmation.check(request):
        return _render(request, action, error=error, status=422)
    try:
        return perform()
    except Refusal as refusal:
        return _render(request, action, refusal=refusal, status=422)


def _render(request: HttpRequest, action: Action, status: int = 200, **more: Any) -> HttpResponse:
    context = {
        "action": action,
        "kind": confirmation.get_kind(request),
        "given": request.POST,
        **action.context,
        **more,
    }
    return rendering.render(request, TEMPLATE, context, status=status)
