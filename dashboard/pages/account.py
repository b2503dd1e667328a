"""The user's own account: a new password, and the list of sessions."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import authenticate, password_validation, update_session_auth_hash
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from statecore import sessions as session_keys
from statecore.dashboard import permissions, rendering, sessions

TEMPLATE = "dashboard/account.html"
CHANGED = "The password was changed. All your other sessions were signed out."


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return rendering.render(request, TEMPLATE, _context(request))
    errors = _change_password(request)
    if errors:
        return rendering.render(request, TEMPLATE, {**_context(request), "errors": errors}, status=422)
    messages.success(request, CHANGED, extra_tags="good")
    return HttpResponseRedirect(reverse("console:account"))


@sensitive_variables()
def _change_password(request: HttpRequest) -> list[str]:
    """Sets the new password and returns no errors; a wrong current password counts towards the lockout."""
    user = permissions.get_user(request)
    if not user.has_usable_password():
        raise PermissionDenied("This account has no password.")
    current, new, repeated = (request.POST.get(name, "") for name in ("current", "new", "repeated"))
    if authenticate(request, username=user.get_username(), password=current) is None:
        return ["The current password is wrong."]
    if new != repeated:
        return ["The new passwords differ."]
    if new == current:
        return ["The new password is the current one."]
    try:
        password_validation.validate_password(new, user)
    except ValidationError as error:
        return list(error.messages)
    others = [each for each in _list_sessions(request) if not each.is_current]
    user.set_password(new)
    user.save(update_fields=["password"])
    request.session.pop(session_keys.ONE_TIME_PASSWORD, None)
    sessions.end(others, user, permissions.get_actor(request))
    update_session_auth_hash(request, user)
    return []


@require_POST
def end_session(request: HttpRequest) -> HttpResponse:
    """Signs out one of the user's sessions, or all but the current one."""
    others = [each for each in _list_sessions(request) if not each.is_current]
    wanted = request.POST.get("session", "")
    chosen = others if wanted == "others" else [each for each in others if each.id == wanted]
    if not chosen and wanted != "others":
        raise Http404("This session has ended already.")
    count = sessions.end(chosen, permissions.get_user(request), permissions.get_actor(request))
    text = "Signed out 1 session." if count == 1 else f"Signed out {count} sessions."
    messages.success(request, text, extra_tags="good")
    return HttpResponseRedirect(reverse("console:account"))


def _list_sessions(request: HttpRequest) -> list[sessions.UserSession]:
    return sessions.list_sessions(permissions.get_user(request), request.session.session_key)


def _context(request: HttpRequest) -> dict[str, Any]:
    listed = _list_sessions(request)
    return {
        "sessions": listed,
        "others": sum(not each.is_current for each in listed),
        "must_change": session_keys.must_change_password(request.session),
        "has_password": permissions.get_user(request).has_usable_password(),
        "rules": password_validation.password_validators_help_texts(),
    }
