"""Telling people, through apprise."""

from __future__ import annotations

import apprise
from django.conf import settings


class NotNotified(Exception):
    """Nobody, or not everybody, was told. Never names an address: it may hold a password."""


def send(title: str, body: str) -> str:
    """Tell everybody whom STATECORE_NOTIFY_URLS names; how many that were, as a sentence."""
    people = apprise.Apprise()
    for number, url in enumerate(settings.STATECORE_NOTIFY_URLS, 1):
        if not people.add(url):
            raise NotNotified(f"address {number} of STATECORE_NOTIFY_URLS is not one that apprise knows")
    if not len(people):
        raise NotNotified("nobody is notified: STATECORE_NOTIFY_URLS is empty")
    if not people.notify(title=title, body=body):
        raise NotNotified(f"not all {len(people)} addresses of STATECORE_NOTIFY_URLS could be reached")
    return f"sent to {len(people)} addresses"
