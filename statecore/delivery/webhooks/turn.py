"""A turn at sending the messages of one webhook: what is due, in which order, and what follows from each attempt.

Events are sent in the order of their positions. When an attempt fails, the events of its entity wait in the backlog and
are sent later, in their order; other entities continue. After several failures in a row nothing is sent for a while,
and when too many entities wait, no new event is begun. A turn is a lease: it is fenced by a number in the row of the
webhook, so a process that has lost it cannot record anything, and another one sends the message again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from ...journal import epochs
from ...journal.archive import get_last_archived_position
from ...journal.position import read_extent
from ...kernel import registry
from ...kernel.clock import now, retry_delay
from ...machines.run import Run
from ...read_models import history
from ...read_models.history import Filters
from ...records.webhook import REASON_LENGTH, Webhook, WebhookBacklog, WebhookDelivery
from .messages import Message, build_event_message, build_run_message, build_test_message
from .sender import Response

log = structlog.get_logger(__name__)

PAGE_SIZE = 100
MAX_WAITING = 100  # entities of one webhook that wait in the backlog
# A receiver that failed so many times in a row was down: when it answers, everything that waits is due.
DOWN_AFTER = 5
MARGIN = timedelta(seconds=5)


class TurnLost(Exception):
    """Another process has taken over, or an operator has changed the webhook; what was sent is sent again."""


def lease_duration() -> timedelta:
    """Return how long a lease lasts without renewal: longer than any attempt."""
    return timedelta(seconds=settings.STATECORE_WEBHOOK_TIMEOUT_SECONDS) + MARGIN


def find_due(busy: list[str], limit: int) -> list[str]:
    """Return the ids of webhooks with something to send that no process holds."""
    at, (epoch, head) = now(), read_extent()
    free = Webhook.objects.filter(Q(leased_until=None) | Q(leased_until__lte=at)).exclude(pk__in=busy)
    active = Q(disabled_at=None) & (Q(next_try_at=None) | Q(next_try_at__lte=at))
    waiting = WebhookBacklog.objects.filter(webhook=OuterRef("pk"), next_try_at__lte=at)
    behind = Q(position__lt=head) | ~Q(epoch=epoch) | Exists(waiting)
    subscriptions = free.filter((active & behind) | ~Q(test=""), run_id="")
    ended = Run.objects.filter(pk=OuterRef("run_id"), state__in=Run.flow.final)
    of_runs = free.exclude(run_id="").filter(active, Exists(ended), finished_at=None)
    found = [*subscriptions.values_list("pk", flat=True)[:limit], *of_runs.values_list("pk", flat=True)[:limit]]
    return found[:limit]


def begin(webhook_id: str) -> Turn | None:
    """Take the lease; None if another process has it."""
    at = now()
    with transaction.atomic():
        free = Webhook.objects.filter(Q(leased_until=None) | Q(leased_until__lte=at), pk=webhook_id)
        webhook = free.select_for_update().first()
        if webhook is None:
            return None
        webhook.fence += 1
        webhook.leased_until = at + lease_duration()
        webhook.save(update_fields=("fence", "leased_until"))
    turn = Turn(webhook)
    turn.follow_epoch()
    return turn


class Turn:
    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.backlog = {(row.entity_type, row.entity_id): row for row in webhook.backlog.order_by("next_try_at", "pk")}
        self.visible = _find_visible_types(webhook)
        self.events: deque[dict[str, Any]] = deque()
        self.read_up_to = webhook.position

    # What to send

    def next_message(self) -> Message | None:
        """Return the next message that is due, or None. Raises TurnLost."""
        webhook, at = self.webhook, now()
        if webhook.leased_until is None or webhook.leased_until < at + lease_duration() - MARGIN / 2:
            self._update(leased_until=at + lease_duration())
        if webhook.test:
            return build_test_message(webhook, at)
        if webhook.disabled_at is not None or (webhook.next_try_at is not None and webhook.next_try_at > at):
            return None
        if webhook.run_id:
            return self._build_run_message()
        if not self.visible:
            self.disable("its owner is no longer active, or may not see any machine")
            return None
        return self._next_from_backlog(at) or self._next_from_journal()

    def _build_run_message(self) -> Message | None:
        run = Run.objects.filter(pk=self.webhook.run_id, state__in=Run.flow.final).first()
        if self.webhook.finished_at is not None or run is None:
            return None
        if Run.flow.entity_type not in self.visible:
            self.disable("its owner is no longer active, or may not see runs")
            return None
        return build_run_message(self.webhook, run, self.webhook.failures + 1)

    def _next_from_backlog(self, at: datetime) -> Message | None:
        """Return the first waiting event of an entity that is due."""
        for entity, row in [*self.backlog.items()]:
            if row.next_try_at > at:
                continue
            for numbered in self._read_waiting(row):
                return build_event_message(self.webhook, numbered, row.attempts + 1)
            self._forget(entity)
        return None

    def _read_waiting(self, row: WebhookBacklog) -> Iterator[dict[str, Any]]:
        """Yield the first event that waits; none if the filter or the rights of the owner now exclude them."""
        chosen = build_filters(self.webhook.filter)
        is_chosen_type = not chosen.entity_type or row.entity_type in chosen.entity_type
        is_chosen_id = not chosen.entity or row.entity_id in chosen.entity
        if not (is_chosen_type and is_chosen_id and row.entity_type in self.visible):
            return
        own = replace(chosen, entity_type=[row.entity_type], entity=[row.entity_id])
        yield from history.read_page(own, after=row.position - 1, before=self.webhook.position + 1, limit=1).events

    def _next_from_journal(self) -> Message | None:
        """Return the next event behind the position whose entity does not wait."""
        while len(self.backlog) < MAX_WAITING:
            if not self.events and not self._read_events():
                return None
            while self.events:
                numbered = self.events[0]
                if (numbered["event"]["entity_type"], numbered["event"]["entity_id"]) not in self.backlog:
                    return build_event_message(self.webhook, numbered, 1)
                self._take(numbered["position"])
        return None

    def _read_events(self) -> bool:
        """Read the next events that the filter selects, and move the position past those that it does not."""
        if self.read_up_to > self.webhook.position:
            self._update(position=self.read_up_to)
        epoch, head = read_extent()
        if epoch != self.webhook.epoch:
            raise TurnLost
        after = max(self.webhook.position, get_last_archived_position())
        if after >= head:
            return False
        self.read_up_to = head
        chosen = build_filters(self.webhook.filter)
        if types := sorted(self.visible.intersection(chosen.entity_type or self.visible)):
            is_narrow = chosen.entity_type or len(types) < len(registry.flows())
            chosen = replace(chosen, entity_type=types if is_narrow else ())
            page = history.read_page(chosen, after=after, before=head + 1, limit=PAGE_SIZE)
            self.events.extend(page.events)
            self.read_up_to = page.events[-1]["position"] if page.more else head
        return True

    def _take(self, position: int) -> None:
        """Move the position in memory; it is stored with the next attempt."""
        self.events.popleft()
        self.webhook.position = position

    # What follows

    def record(self, message: Message, response: Response) -> None:
        """Store an attempt and what follows from it, in one transaction. Raises TurnLost."""
        at = now()
        with transaction.atomic():
            WebhookDelivery.objects.create(
                webhook=self.webhook, message_id=message.id, name=message.type, position=message.position,
                event_id=message.event_id, entity_type=message.entity_type, entity_id=message.entity_id,
                attempt=message.attempt, at=at, duration_ms=response.duration_ms, status=response.status,
                is_delivered=response.is_success, error=response.error, response=response.excerpt,
            )  # fmt: skip
            if message.id == self.webhook.test:
                self._update(test="")
            elif response.is_success:
                self._record_success(message, at)
            else:
                self._record_failure(message, response, at)

    def _record_success(self, message: Message, at: datetime) -> None:
        webhook, row = self.webhook, self.backlog.get(message.entity)
        was_down = webhook.failures >= DOWN_AFTER
        if webhook.run_id:
            self._update(finished_at=at, last_success_at=at, failures=0, failing_since=None, next_try_at=None)
            return
        assert message.position is not None  # noqa: S101 - only a test has none
        if row is None:
            self._take(message.position)
        else:
            row.position, row.attempts, row.next_try_at = message.position + 1, 0, at
            row.save(update_fields=("position", "attempts", "next_try_at"))
            if next(self._read_waiting(row), None) is None:
                self._forget(message.entity)
        failing_since = webhook.failing_since if self.backlog else None
        self._update(
            position=webhook.position, last_success_at=at, failures=0, next_try_at=None, failing_since=failing_since
        )
        if was_down:
            webhook.backlog.update(next_try_at=at)
            self.backlog = {(each.entity_type, each.entity_id): each for each in webhook.backlog.order_by("position")}

    def _record_failure(self, message: Message, response: Response, at: datetime) -> None:
        webhook = self.webhook
        failures = webhook.failures + 1
        is_alone = failures == 1 and not webhook.run_id  # others of its entities may be delivered
        wait = None if is_alone else at + retry_delay(webhook.pk, failures if webhook.run_id else failures - 1)
        since = webhook.failing_since or at
        if not webhook.run_id:
            since = self._keep_waiting(message, at)
        self._update(
            position=webhook.position, failures=failures, next_try_at=wait, last_failure_at=at,
            failing_since=webhook.failing_since or at,
        )  # fmt: skip
        if response.is_gone:
            self.disable("the receiver answered 410: it no longer exists")
        elif at - since >= timedelta(hours=settings.STATECORE_WEBHOOK_RETRY_HOURS):
            hours, about = settings.STATECORE_WEBHOOK_RETRY_HOURS, f"{message.entity_type} {message.entity_id}"
            self.disable(f"an event of {about} was not delivered for {hours} h: {response.describe()}")

    def _keep_waiting(self, message: Message, at: datetime) -> datetime:
        """Let the entity of a message wait until its next attempt; return since when it fails."""
        assert message.position is not None  # noqa: S101 - only a test has none
        row = self.backlog.pop(message.entity, None)
        if row is None:
            self._take(message.position)
            row = WebhookBacklog(
                webhook=self.webhook, entity_type=message.entity_type, entity_id=message.entity_id,
                position=message.position, failing_since=at,
            )  # fmt: skip
        elif row.attempts == 0:  # an event behind one that was delivered
            row.failing_since = at
        row.attempts += 1
        row.next_try_at = at + retry_delay(message.id, row.attempts)
        row.save()
        self.backlog[message.entity] = row
        return row.failing_since

    def _forget(self, entity: tuple[str, str]) -> None:
        self.backlog.pop(entity).delete()

    def disable(self, reason: str) -> None:
        """Send nothing until an operator enables the webhook; a test that was requested is dropped."""
        self._update(disabled_at=now(), disabled_by="", disabled_reason=reason[:REASON_LENGTH], test="")
        log.error("webhook_disabled", webhook=self.webhook.pk, host=self.webhook.host, reason=reason)

    # The lease

    def follow_epoch(self) -> None:
        """After a failover or a restore, continue after the last position that means the same."""
        epoch, _head = read_extent()
        if epoch == self.webhook.epoch:
            return
        kept = epochs.find_last_shared_position(self.webhook.epoch)
        with transaction.atomic():
            self._update(epoch=epoch, position=min(self.webhook.position, kept))
            self.webhook.backlog.filter(position__gt=kept).delete()
        self.backlog = {entity: row for entity, row in self.backlog.items() if row.position <= kept}
        self.read_up_to = self.webhook.position

    def end(self) -> None:
        """Give the lease back, so that the next turn can begin at once.

        After a change by an operator only the lease is given back. A process that took over has another one.
        """
        webhook = Webhook.objects.filter(pk=self.webhook.pk)
        own = webhook.filter(fence=self.webhook.fence)
        position = self.webhook.position if self.events else max(self.read_up_to, self.webhook.position)
        waits = {} if len(self.backlog) < MAX_WAITING else {"next_try_at": self._find_next_try()}
        if not own.update(leased_until=None, position=position, **waits):
            webhook.filter(leased_until=self.webhook.leased_until).update(leased_until=None)

    def _find_next_try(self) -> datetime:
        """With a full backlog, nothing is due before its first entity."""
        first = min(row.next_try_at for row in self.backlog.values())
        return max(first, self.webhook.next_try_at or first)

    def _update(self, **fields: Any) -> None:
        changed = {**fields, "leased_until": now() + lease_duration()}
        if not Webhook.objects.filter(pk=self.webhook.pk, fence=self.webhook.fence).update(**changed):
            raise TurnLost
        for name, value in changed.items():
            setattr(self.webhook, name, value)


def build_filters(given: Mapping[str, Any]) -> Filters:
    return Filters(**given)


def _find_visible_types(webhook: Webhook) -> frozenset[str]:
    """Return the types of entities that the owner may see; all for the system."""
    flows, owner = registry.flows(), webhook.owner
    return frozenset(flow.entity_type for flow in flows if owner is None or owner.has_perm(flow.permission("view")))
