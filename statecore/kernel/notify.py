"""Telling people, through apprise. An address is never named: it may be a secret as a whole."""

from __future__ import annotations

from collections.abc import Iterable


class NotNotified(Exception):
    """Nobody, or not everybody, was told."""


def send(addresses: Iterable[str], title: str, body: str) -> int:
    """Tell everybody at these addresses; how many they are."""
    from apprise import Apprise  # takes a while to load, and only a few processes ever send

    people = Apprise()
    for number, address in enumerate(addresses, 1):
        if not people.add(address):
            raise NotNotified(f"address {number} of STATECORE_NOTIFY_URLS is not one that apprise knows")
    if not len(people):
        raise NotNotified("nobody is notified: STATECORE_NOTIFY_URLS is empty")
    try:
        reached = people.notify(title=title, body=body)
    except Exception as error:  # noqa: BLE001 - apprise's plugins raise anything
        raise NotNotified(f"what sends it failed: {type(error).__name__}") from None
    if not reached:
        raise NotNotified(f"not all {len(people)} addresses of STATECORE_NOTIFY_URLS could be reached")
    return len(people)
