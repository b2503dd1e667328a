"""Roles: the list, one role in plain words, and the preview and confirmation of its changes."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from statecore.accounts import roles as service
from statecore.dashboard import confirmation, permissions, rendering
from statecore.dashboard.groups import ACTIONS as DEFAULT_ROLES
from statecore.dashboard.queries import roles as queries
from statecore.kernel.refusals import NotFound
from statecore.records.service_account import MANAGE_ACCOUNTS

from .account_action import Action, respond

LIST, ONE, NEW = "dashboard/roles.html", "dashboard/role.html", "dashboard/parts/new_role_fields.html"
MAX_MEMBERS = 20


@require_safe
def roles(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)
    rows = [(role, queries.summarize(role)) for role in queries.list_roles()]
    return rendering.render(request, LIST, {"rows": rows})


@require_safe
def role(request: HttpRequest, role_id: int) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)
    found = _get(role_id)
    machines, records = queries.describe(found.permissions.values_list("pk", flat=True))
    context = {
        "role": found,
        "verbs": list(queries.VERBS.values()),
        "machines": machines,
        "records": records,
        "members": queries.list_members(found),
        "may_change": permissions.may_write(request, MANAGE_ACCOUNTS),
        "may_delete": found.name not in DEFAULT_ROLES,
    }
    return rendering.render(request, ONE, context)


@sensitive_post_parameters(confirmation.FIELD)
@require_http_methods(["GET", "HEAD", "POST"])
def new_role(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)

    def create() -> HttpResponse:
        made = service.create(request.POST.get("name", ""), actor=permissions.get_actor(request))
        return _redirect(request, made, "Created. Choose what it allows.")

    action = Action(
        title="Create a role",
        button="Create role",
        parent="Roles",
        back=reverse("console:roles"),
        consequences=["It allows nothing until you choose its permissions."],
        fields=NEW,
    )
    return respond(request, action, create)


@sensitive_post_parameters(confirmation.FIELD)
@require_http_methods(["POST"])
def change_role(request: HttpRequest, role_id: int) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)
    found, wanted = _get(role_id), _read_permissions(request)

    def plan(role: Group) -> service.Change:
        return service.plan_change(role, wanted, queries.list_offered())

    def change() -> HttpResponse:
        service.change(found.pk, plan, actor=permissions.get_actor(request))
        return _redirect(request, found, "Changed. It counts from the next call.")

    planned = plan(found)
    lines = _describe(planned) or ["Nothing changes."]
    hidden = [("permission", str(pk)) for pk in wanted]
    return respond(request, _build(found, f"Change the role {found.name}", "Change role", lines, hidden=hidden), change)


@sensitive_post_parameters(confirmation.FIELD)
@require_http_methods(["GET", "HEAD", "POST"])
def delete_role(request: HttpRequest, role_id: int) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)
    found = _get(role_id)
    if found.name in DEFAULT_ROLES:
        raise Http404("This role belongs to Statecore: the next migration would create it again.")

    def delete() -> HttpResponse:
        service.delete(found.pk, actor=permissions.get_actor(request))
        messages.success(request, f"Deleted the role {found.name}.", extra_tags="good")
        return HttpResponseRedirect(reverse("console:roles"))

    return respond(
        request, _build(found, f"Delete the role {found.name}", "Delete role", [], is_dangerous=True), delete
    )


def _describe(planned: service.Change) -> list[str]:
    def sentence(word: str, permission: Any) -> str:
        name, verb = queries.name_permission(permission)
        return f"{word} {name}: {verb}."

    gained = [sentence("Gains", each) for each in planned.added]
    return sorted(gained) + sorted(sentence("Loses", each) for each in planned.removed)


def _build(role: Group, title: str, button: str, lines: list[str], **more: Any) -> Action:
    back = reverse("console:role", args=[role.pk])
    return Action(
        title=title, button=button, parent=role.name, back=back, consequences=[*lines, _describe_members(role)], **more
    )


def _describe_members(role: Group) -> str:
    members = queries.list_members(role)
    if not members:
        return "No active account has this role."
    listed = ", ".join(members[:MAX_MEMBERS])
    more = f" and {len(members) - MAX_MEMBERS} more" if len(members) > MAX_MEMBERS else ""
    return f"Accounts with this role: {listed}{more}."


def _read_permissions(request: HttpRequest) -> list[int]:
    given = request.POST.getlist("permission")[:2_000]
    return [int(each) for each in given if each.isascii() and each.isdigit() and len(each) < 10]


def _redirect(request: HttpRequest, role: Group, sentence: str) -> HttpResponse:
    messages.success(request, sentence, extra_tags="good")
    return HttpResponseRedirect(reverse("console:role", args=[role.pk]))


def _get(role_id: int) -> Group:
    try:
        return service.get(role_id)
    except NotFound as refusal:
        raise Http404("There is no such role.") from refusal
