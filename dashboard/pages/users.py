"""Accounts of people: the list, one account with what it holds, and what administrators change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from statecore.accounts import people
from statecore.dashboard import confirmation, permissions, rendering, second_factor, sessions
from statecore.dashboard.queries import holdings
from statecore.dashboard.queries import users as queries
from statecore.kernel.refusals import Refusal
from statecore.records import one_time_password
from statecore.records.service_account import MANAGE_ACCOUNTS, ServiceAccount

from .account_action import Action, respond
from .query_params import get_text

LIST, ONE, NEW = "dashboard/users.html", "dashboard/user.html", "dashboard/parts/new_user_fields.html"
SUPERUSER = "superuser"


@require_safe
def users(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)
    given = queries.Filters(*(get_text(request, name) for name in queries.Filters._fields))
    rows, has_more = queries.read_page(given, get_text(request, "after"))
    query = {name: value for name, value in given._asdict().items() if value}
    context = {
        "rows": rows,
        "given": given,
        "is_filtered": bool(query),
        "is_first": not get_text(request, "after"),
        "query": urlencode(query),
        "next": urlencode({**query, "after": rows[-1].user.username}) if has_more else "",
        "roles": _list_role_names(),
        "statuses": ("active", "deactivated"),
        "switches": ("on", "off"),
        "seen": queries.SEEN,
    }
    return rendering.render(request, LIST, context)


@never_cache
@sensitive_post_parameters(confirmation.FIELD)
@sensitive_variables("password")
@require_http_methods(["GET", "HEAD", "POST"])
def new_user(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)

    def create() -> HttpResponse:
        name, roles = request.POST.get("username", "").strip(), request.POST.getlist("role")
        user, password = people.create(name, roles, actor=permissions.get_actor(request))
        return _render_user(request, _get(user.pk), password=password)

    action = Action(
        title="Create an account",
        button="Create account",
        parent="Users",
        back=reverse("console:users"),
        consequences=["A one-time password is shown once. It must be replaced at the first login, within 3 days."],
        fields=NEW,
        context={"roles": _list_role_names(), "chosen": request.POST.getlist("role")},
    )
    return respond(request, action, create)


@never_cache
@require_safe
def user(request: HttpRequest, user_id: int) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)
    return _render_user(request, _get(user_id))


def _render_user(request: HttpRequest, found: User, **more: Any) -> HttpResponse:
    return rendering.render(request, ONE, {**_build_user(request, found), **more})


def _build_user(request: HttpRequest, found: User) -> dict[str, Any]:
    try:
        people.require_administrable(found, permissions.get_actor(request))
        refused = ""
    except Refusal as refusal:
        refused = refusal.detail
    held = sorted(group.name for group in found.groups.all())
    return {
        "person": found,
        "roles": [(name, name in held) for name in _list_role_names()],
        "held_roles": held,
        "factor": queries.describe_factor(found),
        "sessions": sessions.list_sessions(found, request.session.session_key),
        "tokens": queries.list_valid_tokens(found),
        "services": list(ServiceAccount.objects.filter(owner=found).select_related("user")),
        "one_time_password": one_time_password.find(found),
        "refused": refused,
        "may_change": permissions.may_write(request, MANAGE_ACCOUNTS) and not refused,
        "may_make_superusers": permissions.get_user(request).is_superuser,
    }


@never_cache
@sensitive_post_parameters(confirmation.FIELD)
@sensitive_variables("password")
@require_http_methods(["GET", "HEAD", "POST"])
def user_action(request: HttpRequest, user_id: int, action: str) -> HttpResponse:
    """What the buttons of the page do, after a preview and a confirmation."""
    permissions.require_permission(request, MANAGE_ACCOUNTS)
    found = _get(user_id)
    try:
        people.require_administrable(found, permissions.get_actor(request))
    except Refusal as refusal:
        return rendering.render(request, ONE, {**_build_user(request, found), "refusal": refusal}, status=422)
    described = ACTIONS.get(action)
    if described is None:
        raise Http404("There is no such action.")
    describe, perform = described
    return respond(request, describe(request, found), lambda: perform(request, found))


# The actions


def _describe_roles(request: HttpRequest, user: User) -> Action:
    wanted, is_superuser = _read_roles(request, user)
    held = set(user.groups.values_list("name", flat=True))
    changes = [f"Gains the role {name}." for name in sorted(set(wanted) - held)]
    changes += [f"Loses the role {name}." for name in sorted(held - set(wanted))]
    if is_superuser is not user.is_superuser:
        changes.append("Becomes a superuser, with all rights." if is_superuser else "Is no superuser any more.")
    hidden = [("role", name) for name in wanted] + [(SUPERUSER, "1")] * is_superuser
    return _build(user, "Change the roles of {}", "Change roles", changes or ["Nothing changes."], hidden=hidden)


def _read_roles(request: HttpRequest, user: User) -> tuple[list[str], bool]:
    """Only superusers are offered the field, so its absence changes nothing for others."""
    given = request.POST if request.method == "POST" else request.GET
    may_choose = permissions.get_user(request).is_superuser
    return given.getlist("role"), SUPERUSER in given if may_choose else user.is_superuser


def _change_roles(request: HttpRequest, user: User) -> HttpResponse:
    wanted, is_superuser = _read_roles(request, user)
    people.set_roles(user.pk, wanted, is_superuser=is_superuser, actor=permissions.get_actor(request))
    return _redirect(request, user, "Changed. The new roles count from the next call.")


def _describe_deactivation(request: HttpRequest, user: User) -> Action:
    lines = ["Logins are refused from now on.", *holdings.describe(user)]
    return _build(user, "Deactivate {}", "Deactivate account", lines, is_dangerous=True)


def _deactivate(request: HttpRequest, user: User) -> HttpResponse:
    actor = permissions.get_actor(request)
    people.deactivate(user.pk, actor=actor)
    sessions.end(sessions.list_sessions(user, None), user, actor)
    return _redirect(request, user, "Deactivated.")


def _describe_activation(request: HttpRequest, user: User) -> Action:
    count = len(queries.list_valid_tokens(user))
    lines = ["The user can log in with the password from before."]
    lines += [f"Tokens that are valid again: {count}."] if count else []
    return _build(user, "Activate {}", "Activate account", lines)


def _activate(request: HttpRequest, user: User) -> HttpResponse:
    people.activate(user.pk, actor=permissions.get_actor(request))
    return _redirect(request, user, "Activated.")


def _describe_password(request: HttpRequest, user: User) -> Action:
    lines = [
        "The current password is refused from now on, and all sessions end.",
        "A one-time password is shown once. It must be replaced at the next login, within 3 days.",
    ]
    return _build(user, "Reset the password of {}", "Reset password", lines, is_dangerous=True)


def _reset_password(request: HttpRequest, user: User) -> HttpResponse:
    actor, ended = permissions.get_actor(request), sessions.list_sessions(user, None)
    password = people.reset_password(user.pk, actor=actor)
    sessions.end(ended, user, actor)
    return _render_user(request, _get(user.pk), password=password)


def _describe_factor(request: HttpRequest, user: User) -> Action:
    lines = [
        "The authenticator app, the passkeys and the recovery codes are removed.",
        "Identify the person by another way first.",
    ]
    return _build(user, "Reset the second factor of {}", "Reset second factor", lines, is_dangerous=True)


def _reset_factor(request: HttpRequest, user: User) -> HttpResponse:
    people.change_locked(user.pk, permissions.get_actor(request), second_factor.remove)
    return _redirect(request, user, "Removed the second factor.")


def _describe_sessions(request: HttpRequest, user: User) -> Action:
    count = len(sessions.list_sessions(user, None))
    return _build(user, "End the sessions of {}", "End sessions", [f"Sessions that end: {count}. Tokens continue."])


def _end_sessions(request: HttpRequest, user: User) -> HttpResponse:
    count = sessions.end(sessions.list_sessions(user, None), user, permissions.get_actor(request))
    return _redirect(request, user, f"Ended sessions: {count}.")


Describe = Callable[[HttpRequest, User], Action]
Perform = Callable[[HttpRequest, User], HttpResponse]
ACTIONS: dict[str, tuple[Describe, Perform]] = {
    "roles": (_describe_roles, _change_roles),
    "deactivate": (_describe_deactivation, _deactivate),
    "activate": (_describe_activation, _activate),
    "password": (_describe_password, _reset_password),
    "second-factor": (_describe_factor, _reset_factor),
    "sessions": (_describe_sessions, _end_sessions),
}


def _build(user: User, title: str, button: str, lines: list[str], **more: Any) -> Action:
    name, back = user.get_username(), reverse("console:user", args=[user.pk])
    return Action(title=title.format(name), button=button, parent=name, back=back, consequences=lines, **more)


def _redirect(request: HttpRequest, user: User, sentence: str) -> HttpResponse:
    messages.success(request, sentence, extra_tags="good")
    return HttpResponseRedirect(reverse("console:user", args=[user.pk]))


def _get(user_id: int) -> Any:
    found = queries.find(user_id)
    if found is None:
        raise Http404("There is no person with this account.")
    return found


def _list_role_names() -> list[str]:
    return list(Group.objects.order_by("name").values_list("name", flat=True))
