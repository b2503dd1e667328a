"""Sends notifications through apprise. Addresses never appear in messages, because they may contain secrets."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

# Longer than apprise's 4 s: a receiver that answers later would get the same notification again.
READ_SECONDS = 30.0


class Urgency(StrEnum):
    """The types of notifications that apprise knows; receivers show them by colour, icon or sound."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"


class NotificationFailed(Exception):
    """At least one address was not notified."""


def send(addresses: Iterable[str], title: str, body: str, urgency: Urgency) -> int:
    """Notifies all addresses and returns their number. Raises NotificationFailed if one cannot be reached."""
    from apprise import Apprise  # slow to import, and only a few processes send notifications

    receivers = Apprise()
    for number, address in enumerate(addresses, 1):
        if not receivers.add(address):
            raise NotificationFailed(f"address {number} of STATECORE_NOTIFY_URLS is not an apprise URL")
    for receiver in receivers:
        receiver.socket_read_timeout = READ_SECONDS
    if not len(receivers):
        raise NotificationFailed("not notified: STATECORE_NOTIFY_URLS is empty")
    try:
        is_sent = receivers.notify(title=title, body=body, notify_type=urgency.value)
    except Exception as error:  # noqa: BLE001 - apprise's plugins raise anything
        raise NotificationFailed(f"sending failed: {type(error).__name__}") from None
    if not is_sent:
        raise NotificationFailed(f"not all {len(receivers)} addresses of STATECORE_NOTIFY_URLS could be reached")
    return len(receivers)
