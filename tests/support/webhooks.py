"""Subscribes an operator to events, and sends what is due from the test process."""

from __future__ import annotations

import asyncio
from typing import Any

from django.contrib.auth.models import User

from statecore.delivery.webhooks import subscriptions
from statecore.delivery.webhooks.process import Deliverer
from statecore.kernel.actors import Actor, Channel
from statecore.records import Webhook
from tests.support.sequencer import catch_up


def operator(name: str = "ada") -> Actor:
    user, _is_new = User.objects.get_or_create(username=name, defaults={"is_superuser": True, "password": "!"})
    return Actor.operator(user, Channel.CONSOLE)


def subscribe(url: str, **filters: Any) -> Webhook:
    return subscriptions.subscribe(url, actor=operator(), filters=filters)[0]


def deliver() -> None:
    """Numbers all events and sends what is due until nothing is."""
    catch_up()

    async def run() -> None:
        deliverer = Deliverer()
        while True:
            await deliverer.begin_turns()
            if not deliverer.turns:
                break
            await asyncio.gather(*deliverer.turns.values())
            await asyncio.sleep(0)
        await deliverer.finish()

    asyncio.run(run())
