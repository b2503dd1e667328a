"""Service accounts and their tokens: all for administrators, for others those that they own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from statecore.accounts import service_accounts as service
from statecore.dashboard import confirmation, permissions, rendering
from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid
from statecore.records.service_account import MANAGE_ACCOUNTS, PURPOSE_LENGTH, ServiceAccount
from statecore.records.token import Scope, Token

from .account_action import Action, respond

LIST, ONE = "dashboard/service_accounts.html", "dashboard/service_account.html"
FIELDS = "dashboard/parts/service_account_fields.html"
TOKEN_FIELDS, ROTATION_FIELDS = "dashboard/parts/token_fields.html", "dashboard/parts/rotation_fields.html"
LIFETIMES = ((30, "30 days"), (90, "90 days"), (180, "180 days"), (365, "1 year"))
OVERLAPS = ((0, "at once"), (1, "in 1 hour"), (24, "in 1 day"), (168, "in 7 days"), (720, "in 30 days"))


@require_safe
def service_accounts(request: HttpRequest) -> HttpResponse:
    is_admin = bool(request.user.has_perm(MANAGE_ACCOUNTS))
    context = {
        "rows": [_describe(each) for each in _list_visible(request)],
        "is_admin": is_admin,
        "may_change": permissions.may_write(request, MANAGE_ACCOUNTS),
    }
    return rendering.render(request, LIST, context)


@never_cache
@require_safe
def service_account(request: HttpRequest, name: str) -> HttpResponse:
    return _render(request, _get(request, name))


@sensitive_post_parameters(confirmation.FIELD)
@require_http_methods(["GET", "HEAD", "POST"])
def new_service_account(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, MANAGE_ACCOUNTS)

    def create() -> HttpResponse:
        made = service.create(
            request.POST.get("name", "").strip(), **_read_fields(request), actor=permissions.get_actor(request)
        )
        return _redirect(request, made.name, "Created. Issue its first token.")

    action = Action(
        title="Create a service account",
        button="Create service account",
        parent="Service accounts",
        back=reverse("console:service_accounts"),
        fields=FIELDS,
        context={**_field_context(request, None), "is_new": True},
    )
    return respond(request, action, create)


@never_cache
@sensitive_post_parameters(confirmation.FIELD)
@sensitive_variables("text")
@require_http_methods(["GET", "HEAD", "POST"])
def service_account_action(request: HttpRequest, name: str, action: str, prefix: str = "") -> HttpResponse:
    """What the buttons of the page do, after a preview and a confirmation."""
    found, described = _get(request, name), ACTIONS.get(action)
    if described is None:
        raise Http404("There is no such action.")
    token = next((each for each in found.tokens() if each.prefix == prefix), None)
    if prefix and token is None:
        raise Http404("There is no such token.")
    describe, perform = described
    return respond(request, describe(request, found, token), lambda: perform(request, found, token))


# The actions


def _describe_change(request: HttpRequest, account: ServiceAccount, token: Token | None) -> Action:
    context = {**_field_context(request, account), "is_new": False}
    lines = ["The change counts from the next call."]
    return _build(account, f"Change {account.name}", "Change service account", lines, fields=FIELDS, context=context)


def _change(request: HttpRequest, account: ServiceAccount, token: Token | None) -> HttpResponse:
    service.change(account.name, _read_fields(request), actor=permissions.get_actor(request))
    return _redirect(request, account.name, "Changed.")


def _describe_disabling(request: HttpRequest, account: ServiceAccount, token: Token | None) -> Action:
    lines = [f"Tokens that are refused from now on: {_count_valid(account)}. What they hold is taken away later."]
    return _build(account, f"Disable {account.name}", "Disable service account", lines, is_dangerous=True)


def _disable(request: HttpRequest, account: ServiceAccount, token: Token | None) -> HttpResponse:
    service.disable(account.name, actor=permissions.get_actor(request))
    return _redirect(request, account.name, "Disabled.")


def _describe_enabling(request: HttpRequest, account: ServiceAccount, token: Token | None) -> Action:
    lines = [f"Tokens that are valid again: {_count_valid(account)}."]
    return _build(account, f"Enable {account.name}", "Enable service account", lines)


def _enable(request: HttpRequest, account: ServiceAccount, token: Token | None) -> HttpResponse:
    service.enable(account.name, actor=permissions.get_actor(request))
    return _redirect(request, account.name, "Enabled.")


def _describe_issue(request: HttpRequest, account: ServiceAccount, token: Token | None) -> Action:
    context = {"scopes": list(Scope.values), "lifetimes": LIFETIMES}
    return _build(
        account, f"Issue a token of {account.name}", "Issue token", ["The token is shown once."],
        fields=TOKEN_FIELDS, context=context,
    )  # fmt: skip


def _issue(request: HttpRequest, account: ServiceAccount, token: Token | None) -> HttpResponse:
    lifetime = timedelta(days=_read_choice(request, "days", LIFETIMES, 90))
    made, text = service.issue_token(
        account.name, request.POST.get("scope", ""), lifetime=lifetime, actor=permissions.get_actor(request)
    )
    return _render(request, service.get(account.name), made=made, text=text)


def _describe_rotation(request: HttpRequest, account: ServiceAccount, token: Token | None) -> Action:
    lines = [f"A token with the scope {_require(token).scope} is created beside this one, and is shown once."]
    return _build(
        account, f"Rotate {_require(token).name}", "Rotate token", lines,
        fields=ROTATION_FIELDS, context={"overlaps": OVERLAPS},
    )  # fmt: skip


def _rotate(request: HttpRequest, account: ServiceAccount, token: Token | None) -> HttpResponse:
    overlap = timedelta(hours=_read_choice(request, "overlap", OVERLAPS, 24))
    made, text = service.rotate_token(
        account.name, _require(token).prefix, overlap=overlap, actor=permissions.get_actor(request)
    )
    return _render(request, service.get(account.name), made=made, text=text)


def _describe_revocation(request: HttpRequest, account: ServiceAccount, token: Token | None) -> Action:
    lines = ["Calls with this token are refused from now on."]
    return _build(account, f"Revoke {_require(token).name}", "Revoke token", lines, is_dangerous=True)


def _revoke(request: HttpRequest, account: ServiceAccount, token: Token | None) -> HttpResponse:
    service.revoke_token(account.name, _require(token).prefix, actor=permissions.get_actor(request))
    return _redirect(request, account.name, "Revoked.")


def _require(token: Token | None) -> Token:
    if token is None:
        raise Http404("The action needs a token.")
    return token


Describe = Callable[[HttpRequest, ServiceAccount, Token | None], Action]
Perform = Callable[[HttpRequest, ServiceAccount, Token | None], HttpResponse]
ACTIONS: dict[str, tuple[Describe, Perform]] = {
    "change": (_describe_change, _change),
    "disable": (_describe_disabling, _disable),
    "enable": (_describe_enabling, _enable),
    "issue": (_describe_issue, _issue),
    "rotate": (_describe_rotation, _rotate),
    "revoke": (_describe_revocation, _revoke),
}


def _build(account: ServiceAccount, title: str, button: str, lines: list[str], **more: Any) -> Action:
    back = reverse("console:service_account", args=[account.name])
    return Action(title=title, button=button, parent=account.name, back=back, consequences=lines, **more)


# Reading the form


def _field_context(request: HttpRequest, account: ServiceAccount | None) -> dict[str, Any]:
    """The values of the form: what was typed, or the current ones."""
    values: dict[str, Any] = {name: request.POST.get(name, "") for name in ("name", "owner", "purpose", "expires_at")}
    chosen = request.POST.getlist("role")
    if account is not None and request.method != "POST":
        owner = account.owner.get_username() if account.owner else ""
        end = account.expires_at.date().isoformat() if account.expires_at else ""
        values, chosen = {"owner": owner, "purpose": account.purpose, "expires_at": end}, account.roles()
    roles = list(Group.objects.order_by("name").values_list("name", flat=True))
    return {"values": values, "roles": roles, "chosen": chosen, "purpose_length": PURPOSE_LENGTH}


def _read_fields(request: HttpRequest) -> dict[str, Any]:
    given = request.POST
    return {
        "owner": given.get("owner", "").strip(),
        "purpose": given.get("purpose", ""),
        "roles": given.getlist("role"),
        "expires_at": _read_day(given.get("expires_at", "").strip()),
    }


def _read_day(text: str) -> datetime | None:
    """The end of a day of the calendar, in UTC."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(days=1) if text else None
    except (ValueError, OverflowError) as error:
        raise Invalid({"expires_at": ["must be a day, such as 2027-01-31."]}) from error


def _read_choice(request: HttpRequest, name: str, choices: tuple[tuple[int, str], ...], default: int) -> int:
    given = request.POST.get(name, "")
    return int(given) if given in {str(value) for value, _label in choices} else default


# Reading accounts


def _list_visible(request: HttpRequest) -> list[ServiceAccount]:
    return service.list_visible(request.user.pk, is_admin=bool(request.user.has_perm(MANAGE_ACCOUNTS)))


def _get(request: HttpRequest, name: str) -> ServiceAccount:
    found = next((each for each in _list_visible(request) if each.name == name), None)
    if found is None:
        raise Http404("There is no such service account, or you may not see it.")
    return found


def _describe(account: ServiceAccount) -> dict[str, Any]:
    valid = [token for token in account.tokens() if _is_valid(token)]
    return {
        "account": account,
        "status": _name_status(account),
        "valid": valid,
        "next_end": min((token.expires_at for token in valid if token.expires_at), default=None),
        "last_used_at": max((token.last_used_at for token in account.tokens() if token.last_used_at), default=None),
    }


def _name_status(account: ServiceAccount) -> str:
    if not account.user.is_active:
        return "disabled"
    if account.is_expired(now()):
        return "ended"
    return "enabled" if account.has_active_owner else "no active owner"


def _is_valid(token: Token) -> bool:
    return token.revoked_at is None and (token.expires_at is None or token.expires_at > now())


def _count_valid(account: ServiceAccount) -> int:
    return sum(_is_valid(token) for token in account.tokens())


def _render(request: HttpRequest, account: ServiceAccount, **more: Any) -> HttpResponse:
    may_change = permissions.may_write(request, MANAGE_ACCOUNTS)
    context = {
        **_describe(account),
        "tokens": [(token, _is_valid(token)) for token in account.tokens()],
        "may_change": may_change,
        # The list has only accounts of which the user is the owner or an administrator.
        "may_rotate": not settings.STATECORE_READ_ONLY,
        **more,
    }
    return rendering.render(request, ONE, context)


def _redirect(request: HttpRequest, name: str, sentence: str) -> HttpResponse:
    messages.success(request, sentence, extra_tags="good")
    return HttpResponseRedirect(reverse("console:service_account", args=[name]))
