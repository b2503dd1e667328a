"""A thread of the sequencers and of the processes that send webhooks. In one of them it evaluates the system rules.

It opens and resolves the alerts, and sends the notices that no worker has sent. So it needs neither beat nor broker,
and also works while no sequencer leads.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import structlog
from django.db import DEFAULT_DB_ALIAS, Error, connections

from ...delivery.sinks import notices
from ...delivery.sinks.alert_rules import SYSTEM_RULES, FindingRule, Violation
from ...delivery.sinks.alerts import open_or_update, resolve
from ...kernel.clock import now
from ...records import Alert
from ...records.leader_lease import Leadership, LeadershipLost
from ..process_reporter import use_own_connection
from .problems import CHECKS

log = structlog.get_logger(__name__)

NAME = "watch"  # of the lease
EVALUATE_SECONDS = 5.0
# A worker sends notices every ten seconds.
NOTICE_IS_LATE = timedelta(seconds=20)


class Watch:
    def __init__(self, process: str) -> None:
        self.leadership = Leadership(NAME, process)
        self.stopping = threading.Event()
        # What the last evaluation found, by rule. One finding alone may be a moment in which all wait for the database.
        self.found: dict[str, set[str]] = {}
        self.sender: threading.Thread | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def _run(self) -> None:
        use_own_connection()
        while not self.stopping.wait(EVALUATE_SECONDS):
            self._work()

    def _work(self) -> None:
        try:
            if self.leadership.is_held:
                self.leadership.renew()
            elif not self.leadership.acquire():
                return
            self.evaluate(now())
            self._send_late_notices()
        except LeadershipLost:
            self.found.clear()
        except Error as error:
            log.warning("watch_lost_database", error=str(error).strip().partition("\n")[0])
            connections[DEFAULT_DB_ALIAS].close()

    def evaluate(self, at: datetime) -> None:
        """Opens an alert for what this evaluation and the last one found, and resolves what is no longer found."""
        for rule in SYSTEM_RULES:
            try:
                found = {each.key: each for each in CHECKS[rule.name](at)}
            except Error:
                raise
            except Exception as error:  # noqa: BLE001 - the other rules are evaluated, whatever the error
                log.error("system_rule_failed", rule=rule.name, error=f"{type(error).__name__}: {error}")
            else:
                self._update(rule, found, at)

    def _update(self, rule: FindingRule, found: dict[str, Violation], at: datetime) -> None:
        open_keys = set(Alert.objects.filter(rule=rule.name, resolved_at=None).values_list("key", flat=True))
        lasting = open_keys | self.found.get(rule.name, set())
        for key, violation in found.items():
            if key in lasting:
                open_or_update(rule.name, rule.severity, violation, at)
        resolve(rule.name, open_keys - set(found), at)
        self.found[rule.name] = set(found)

    def _send_late_notices(self) -> None:
        """In another thread, because a receiver may be slow."""
        if (self.sender is None or not self.sender.is_alive()) and notices.has_due(NOTICE_IS_LATE):
            self.sender = threading.Thread(target=_send, name="late-notices", daemon=True)
            self.sender.start()


def _send() -> None:
    use_own_connection()
    try:
        log.info("late_notices_sent", count=notices.send_due(NOTICE_IS_LATE))
    except Error as error:
        log.warning("notices_not_sent", error=str(error).strip().partition("\n")[0])
    finally:
        connections[DEFAULT_DB_ALIAS].close()
