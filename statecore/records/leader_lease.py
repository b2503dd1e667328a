"""Leadership by a lease in the database, which a leader loses when it does not renew it.

The lease ends by the clock of the database, so a leader that hangs, or whose host is gone, is replaced after a few
seconds. Every new leader gets a higher term. What a leader writes is fenced: the same transaction first finds that the
term is still its own, and keeps the row until it ends. A leader that continues after it was replaced writes nothing.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import Error, connection, models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from ..storage.host import HOST, get_scope, process_exists

# A part of the lease, so that one renewal that fails or is late loses no leadership.
RENEWALS_PER_LEASE = 4
NO_TERM = 0
# PostgreSQL then ends the session of a leader that hangs within a transaction.
MAX_IDLE_SECONDS = 8


class LeaderLease(models.Model):
    """One row for each kind of process of which one leads. The columns describe the last leader."""

    name = models.CharField(primary_key=True, max_length=32)
    # Increases with every leader.
    term = models.BigIntegerField(default=0)
    # A random text, because a term can repeat after a failover that lost the last one. Empty after a release.
    holder = models.CharField(max_length=32, blank=True, default="")
    process = models.CharField(max_length=100, blank=True, default="")
    host = models.CharField(max_length=255, blank=True, default="")
    pid = models.PositiveIntegerField(default=0)
    # See `host.get_scope`.
    scope = models.CharField(max_length=100, blank=True, default="")
    acquired_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.process} on {self.host} (process {self.pid})"

    def has_lost_its_process(self) -> bool:
        """Whether this host can tell that the process has ended, so that its successor need not wait."""
        return bool(self.holder) and self.scope == get_scope() and not process_exists(self.pid)


_TABLE = LeaderLease._meta.db_table
# The row is shared until the transaction ends: another process can take the lease only before or after it.
_KEEP = {"postgresql": " FOR SHARE", "sqlite": ""}


class LeadershipLost(Exception):
    """Another process leads. Nothing of the transaction may be committed."""


class Leadership:
    """Of one process: the lease `name`, once acquired."""

    def __init__(self, name: str, process: str = "") -> None:
        self.name, self.process = name, process or name
        self.holder = secrets.token_hex(16)
        self.term = NO_TERM
        self.renew_at = 0.0

    @property
    def is_held(self) -> bool:
        """Whether this process leads as far as it knows."""
        return self.term != NO_TERM

    def acquire(self) -> bool:
        """Tries to become the leader, without waiting; returns False if another process leads."""
        lease, _is_new = LeaderLease.objects.get_or_create(name=self.name)
        takeable = {self.holder, "", *([lease.holder] if lease.has_lost_its_process() else [])}
        free = LeaderLease.objects.filter(Q(expires_at__lte=Now()) | Q(holder__in=takeable), name=self.name)
        if not free.exists():
            return False
        with transaction.atomic():
            # A standby must not wait for a transaction of the leader.
            if free.select_for_update(skip_locked=True).first() is None:
                return False
            self._take()
        return True

    def _take(self) -> None:
        row = LeaderLease.objects.filter(name=self.name)
        row.update(
            term=F("term") + 1, holder=self.holder, process=self.process, host=HOST, pid=os.getpid(),
            scope=get_scope(), acquired_at=Now(), expires_at=self._get_expiry(),
        )  # fmt: skip
        self.term = row.values_list("term", flat=True).get()
        self._plan_renewal()

    def _get_expiry(self) -> models.Expression:
        return Now() + timedelta(seconds=settings.STATECORE_LEADER_SECONDS)

    def _plan_renewal(self) -> None:
        self.renew_at = time.monotonic() + settings.STATECORE_LEADER_SECONDS / RENEWALS_PER_LEASE

    def is_renewal_due(self) -> bool:
        return time.monotonic() >= self.renew_at

    def check(self) -> None:
        """Raises LeadershipLost if another process leads; renews the lease if that is due.

        In a transaction no other process can take the lease until its end.
        """
        if self.is_renewal_due():
            self.renew()
            return
        with connection.cursor() as cursor:
            cursor.execute(self.select_fence(), self.fence_params)
            self._require(cursor.fetchone() is not None)

    def renew(self) -> None:
        """Raises LeadershipLost if another process leads."""
        is_mine = self._select().update(expires_at=self._get_expiry())
        self._plan_renewal()
        self._require(bool(is_mine))

    def _require(self, is_mine: bool) -> None:
        if not is_mine:
            self.term = NO_TERM
            raise LeadershipLost(f"another process leads as {self.name}")

    def _select(self) -> models.QuerySet[LeaderLease]:
        return LeaderLease.objects.filter(name=self.name, term=self.term, holder=self.holder)

    def select_fence(self, condition: str = "TRUE") -> str:
        """Returns a query that finds a row if this process leads, with `fence_params`, and the condition is true."""
        mine = "name = %s AND term = %s AND holder = %s"
        return f"SELECT 1 FROM {_TABLE} WHERE {condition} AND {mine}{_KEEP[connection.vendor]}"  # noqa: S608

    @property
    def fence_params(self) -> list[Any]:
        return [self.name, self.term, self.holder]

    def limit_idle_transactions(self) -> None:
        """Limits how long a transaction of this session can delay the next leader if this process hangs in it."""
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"SET idle_in_transaction_session_timeout = '{MAX_IDLE_SECONDS}s'")

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """A transaction that is committed only if this process leads until its end."""
        with transaction.atomic():
            self.check()
            yield

    def release(self) -> None:
        """Lets another process lead at once. Without the database the lease expires."""
        if self.is_held:
            with suppress(Error):
                self._select().update(holder="", expires_at=Now())
            self.term = NO_TERM
        connection.close()


def list_missing() -> list[str]:
    """Returns the leases that no process has although one had; a new installation has none."""
    missing = LeaderLease.objects.filter(Q(expires_at__lte=Now()) | Q(holder=""))
    return list(missing.values_list("name", flat=True))


def find_leader(name: str) -> LeaderLease | None:
    """Returns the lease of the process that leads, None if it has expired or was released."""
    return LeaderLease.objects.filter(name=name, expires_at__gt=Now()).exclude(holder="").first()
