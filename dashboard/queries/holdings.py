"""What an account holds, as sentences about what becomes of it when the account is deactivated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statecore.dashboard import sessions
from statecore.dashboard.models import Display
from statecore.records import Incident, Webhook
from statecore.records.approval import Status, with_status
from statecore.records.service_account import ServiceAccount

from .users import list_valid_tokens

MAX_NAMES = 5


def describe(user: Any) -> list[str]:
    counted = [_sentence(text, count(user)) for text, count in COUNTS.items()]
    return [*filter(None, counted), *_describe_services(user)]


def _count_sessions(user: Any) -> int:
    return len(sessions.list_sessions(user, None))


def _count_tokens(user: Any) -> int:
    return len(list_valid_tokens(user))


def _count_requests(user: Any) -> int:
    return with_status(Status.PENDING).filter(account=user.pk).count()


def _count_displays(user: Any) -> int:
    paired = Display.objects.filter(paired_by=user.get_username(), revoked_at=None)
    return paired.exclude(paired_at=None).count()


def _count_webhooks(user: Any) -> int:
    return Webhook.objects.filter(owner=user, disabled_at=None, run_id="").count()


def _count_incidents(user: Any) -> int:
    return Incident.objects.filter(owner=user.get_username(), resolved_at=None).count()


COUNTS: dict[str, Callable[[Any], int]] = {
    "{} open session{s} end{v}.": _count_sessions,
    "{} token{s} {are} refused, and valid again if the account is activated.": _count_tokens,
    "{} pending request{s} for approval can no longer be approved.": _count_requests,
    "{} wall display{s} that the user has paired stay{v} online.": _count_displays,
    "{} webhook{s} send{v} no more events.": _count_webhooks,
    "{} open incident{s} keep{v} the user as owner.": _count_incidents,
}


def _sentence(text: str, count: int) -> str:
    if count == 0:
        return ""
    return text.format(count, s="s", v="", are="are") if count > 1 else text.format(1, s="", v="s", are="is")


def _describe_services(user: Any) -> list[str]:
    owned = ServiceAccount.objects.filter(owner=user, user__is_active=True).select_related("user")
    names = sorted(each.name for each in owned)
    if not names:
        return []
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    listed = ", ".join(names[:MAX_NAMES]) + more
    return [f"Service accounts of this owner continue until their tokens expire, and get no new ones: {listed}."]
