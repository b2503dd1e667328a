"""Subscribing to events, and changing a subscription. Each change is an entry of the account journal.

Operators manage all webhooks. Only the owner decides what is sent where, because the owner's permissions decide which
events are sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import F

from ...journal import accounts
from ...journal.archive import get_last_archived_position
from ...journal.position import read_extent
from ...kernel import registry
from ...kernel.actors import Actor
from ...kernel.clock import now
from ...kernel.ids import is_valid_id, new_id
from ...kernel.refusals import AlreadyInState, Archived, Invalid, NotFound, PermissionDenied, TerminalState
from ...kernel.validation import text_error
from ...read_models.history import Filters
from ...records import webhook as records
from ...records.webhook import DESCRIPTION_LENGTH, REASON_LENGTH, ROTATION, Webhook
from ...records.webhook_address import url_error
from ...storage import cipher
from ...transitions import rights
from .turn import build_filters

FILTERS = ("entity_type", "entity", "run", "to_state", "kind", "severity", "event_name")
MAX_VALUES, VALUE_LENGTH = 100, 64
MAX_SUBSCRIPTIONS = 1_000


def subscribe(
    url: str, *, actor: Actor, filters: Mapping[str, Any] | None = None, description: str = ""
) -> tuple[Webhook, str]:
    """Create a webhook for the events from now on; return it with its secret, which is not shown again."""
    rights.require_record(actor, "add", "webhook")
    fields = _read_fields({"url": url, "filter": filters or {}, "description": description})
    with transaction.atomic():
        if Webhook.objects.filter(run_id="").count() >= MAX_SUBSCRIPTIONS:
            raise Invalid({"url": [f"there are {MAX_SUBSCRIPTIONS} webhooks already: delete those without use."]})
        webhook, secret = records.create(created_by=actor.name, owner_id=actor.account_or_owner, **fields)
        _record(accounts.Action.WEBHOOK_CREATED, webhook, actor)
    return webhook, secret


def change(webhook_id: str, given: Mapping[str, Any], *, actor: Actor) -> Webhook:
    """Change `url`, `filter` or `description`; only the owner may change where events go and which."""
    rights.require_record(actor, "change", "webhook")
    with transaction.atomic():
        webhook = _lock(webhook_id)
        fields = _read_fields(given)
        if fields.keys() & {"url", "filter"}:
            _require_owner(webhook, actor)
        _store(webhook, **fields)
        _record(accounts.Action.WEBHOOK_CHANGED, webhook, actor, changed=sorted(fields))
    return webhook


def rotate_secret(webhook_id: str, *, actor: Actor) -> tuple[Webhook, str]:
    """Make a new secret; the previous one signs as well for a day. Return the new one, which is not shown again."""
    rights.require_record(actor, "change", "webhook")
    with transaction.atomic():
        webhook = _lock(webhook_id)
        _require_owner(webhook, actor)
        secret = records.make_secret()
        _store(
            webhook, previous_secret=webhook.secret, previous_until=now() + ROTATION,
            secret=cipher.encrypt(secret, webhook.pk),
        )  # fmt: skip
        _record(accounts.Action.WEBHOOK_CHANGED, webhook, actor, changed=["secret"])
    return webhook, secret


def disable(webhook_id: str, *, actor: Actor, reason: str = "") -> Webhook:
    """Send nothing more until it is enabled. Events wait as long as the journal has them."""
    rights.require_record(actor, "change", "webhook")
    if error := text_error(reason, REASON_LENGTH):
        raise Invalid({"reason": [error]})
    with transaction.atomic():
        webhook = _lock(webhook_id)
        if webhook.disabled_at is not None:
            raise AlreadyInState(f"{webhook} is disabled already")
        _store(webhook, disabled_at=now(), disabled_by=actor.name, disabled_reason=reason)
        _record(accounts.Action.WEBHOOK_CHANGED, webhook, actor, changed=["disabled"])
    return webhook


def enable(webhook_id: str, *, actor: Actor) -> Webhook:
    """Continue with the events that wait."""
    rights.require_record(actor, "change", "webhook")
    with transaction.atomic():
        webhook = _lock(webhook_id)
        if webhook.disabled_at is None:
            raise AlreadyInState(f"{webhook} is enabled already")
        webhook.backlog.update(next_try_at=now(), failing_since=now(), attempts=0)
        _store(
            webhook, disabled_at=None, disabled_by="", disabled_reason="", failures=0, failing_since=None,
            next_try_at=None,
        )  # fmt: skip
        _record(accounts.Action.WEBHOOK_CHANGED, webhook, actor, changed=["enabled"])
    return webhook


def delete(webhook_id: str, *, actor: Actor) -> None:
    rights.require_record(actor, "delete", "webhook")
    with transaction.atomic():
        webhook = _lock(webhook_id)
        _record(accounts.Action.WEBHOOK_DELETED, webhook, actor)
        webhook.delete()


def request_test(webhook_id: str, *, actor: Actor) -> str:
    """Have a test message sent, also if the webhook is disabled; return its id, with which the log has the result."""
    rights.require_record(actor, "change", "webhook")
    with transaction.atomic():
        webhook = _lock(webhook_id)
        _refuse_of_run(webhook)
        if not webhook.test:
            Webhook.objects.filter(pk=webhook.pk).update(test=new_id("test"))
    return Webhook.objects.values_list("test", flat=True).get(pk=webhook_id) or webhook.test


def replay(webhook_id: str, after: int, *, actor: Actor) -> Webhook:
    """Send the events after a position again, with the same message ids; raises Archived if they are archived."""
    rights.require_record(actor, "change", "webhook")
    with transaction.atomic():
        webhook = _lock(webhook_id)
        _refuse_of_run(webhook)
        epoch, head = read_extent()
        archived = get_last_archived_position()
        after = min(after, head)  # a later one would leave out events that are yet to come
        if after < archived:
            raise Archived(f"events up to position {archived} are archived: replay after it", archived_upto=archived)
        webhook.backlog.filter(position__gt=after).delete()
        _store(webhook, position=after, epoch=epoch, next_try_at=None)
        _record(accounts.Action.WEBHOOK_CHANGED, webhook, actor, changed=["position"], after=after)
    return webhook


def get(webhook_id: str) -> Webhook:
    found = Webhook.objects.select_related("owner").filter(pk=webhook_id).first() if is_valid_id(webhook_id) else None
    if found is None:
        raise NotFound(f"there is no webhook {webhook_id!r}")
    return found


# Reading the fields


def _read_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields to be stored; raises Invalid with all errors by field."""
    errors: dict[str, list[str]] = {}
    fields = dict(given)
    if "url" in given and (error := url_error(given["url"])):
        errors["url"] = [error]
    if "description" in given and (error := text_error(given["description"], DESCRIPTION_LENGTH)):
        errors["description"] = [error]
    if "filter" in given:
        try:
            fields["filter"] = read_filter(given["filter"])
        except Invalid as refusal:
            errors |= refusal.facts["errors"]
    if errors:
        raise Invalid(errors)
    return fields


def read_filter(given: object) -> dict[str, list[str]]:
    """Return a filter with a list of values for each name; raises Invalid."""
    if not isinstance(given, Mapping):
        raise Invalid({"filter": ["must be an object."]})
    errors: dict[str, list[str]] = {}
    found: dict[str, list[str]] = {}
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        if name not in FILTERS:
            errors[f"filter.{name}"] = [f"is not a filter: {', '.join(FILTERS)}."]
        elif not 0 < len(values) <= MAX_VALUES or any(text_error(each, VALUE_LENGTH) or not each for each in values):
            errors[f"filter.{name}"] = [f"must be 1 to {MAX_VALUES} texts of 1 to {VALUE_LENGTH} characters."]
        else:
            found[name] = list(dict.fromkeys(values))
    if not errors:
        errors = _find_unknown_values(build_filters(found))
    if errors:
        raise Invalid(errors)
    return found


def _find_unknown_values(filters: Filters) -> dict[str, list[str]]:
    """Return errors for values that no event can have."""
    try:
        filters.check()
    except Invalid as refusal:
        return {f"filter.{name}": sentences for name, sentences in refusal.facts["errors"].items()}
    states = {str(state) for flow in registry.flows() for state in flow.states}
    if unknown := sorted(set(filters.to_state) - states):
        return {"filter.to_state": [f"{', '.join(unknown)} is no state of any machine."]}
    return {}


# Permissions and rows


def _require_owner(webhook: Webhook, actor: Actor) -> None:
    if webhook.owner_id is None or webhook.owner_id != actor.account_or_owner:
        owner = webhook.owner.get_username() if webhook.owner else "the system"
        raise PermissionDenied(
            f"{webhook} belongs to {owner}, who alone decides what is sent where: create one of your own",
            required="owner",
        )


def _refuse_of_run(webhook: Webhook) -> None:
    if webhook.run_id:
        raise TerminalState(f"{webhook} is sent once, at the end of run {webhook.run_id}", state=str(webhook.status))


def _lock(webhook_id: str) -> Webhook:
    locked = Webhook.objects.select_for_update().filter(pk=webhook_id).first() if is_valid_id(webhook_id) else None
    if locked is None:
        raise NotFound(f"there is no webhook {webhook_id!r}")
    return locked


def _store(webhook: Webhook, **fields: Any) -> None:
    """Change a locked webhook. The process that is sending loses its turn and begins another with the new values."""
    Webhook.objects.filter(pk=webhook.pk).update(**fields, fence=F("fence") + 1)
    for name, value in fields.items():
        setattr(webhook, name, value)


def _record(action: accounts.Action, webhook: Webhook, actor: Actor, **facts: Any) -> None:
    """The entry names the host alone: the rest of the URL may be a secret."""
    owner = get_user_model()._default_manager.filter(pk=webhook.owner_id).first() if webhook.owner_id else None
    account = accounts.Account.of_user(owner) if owner else accounts.SYSTEM
    accounts.record(action, account, actor=actor, facts={"webhook": webhook.pk, "host": webhook.host, **facts})
