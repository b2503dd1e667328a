"""The processes that send webhooks: killed in the middle, two at once, and stopped by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings as django_settings

from statecore.records import Webhook, WebhookDelivery
from tests.support import forked, world
from tests.support.receivers import Received, Receiver
from tests.support.sequencer import ROOT, catch_up, database_url, end
from tests.support.waiting import until
from tests.support.webhooks import subscribe

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.starts_processes]


def start(home: Path) -> subprocess.Popen[bytes]:
    environ = {
        "DATABASE_URL": database_url(),
        "STATECORE_HOME": str(home),
        "STATECORE_SECRET_KEY": django_settings.SECRET_KEY,
        "STATECORE_WEBHOOK_HTTP": "1",
        "STATECORE_WEBHOOK_PRIVATE_ADDRESSES": "127.0.0.0/8",
        "STATECORE_WEBHOOK_TIMEOUT_SECONDS": "1",
    }
    with (home / "webhooks.log").open("ab") as log:
        words = [sys.executable, "manage.py", "webhooks"]
        return forked.Popen(words, cwd=ROOT, env={**os.environ, **environ}, stderr=log)


@contextmanager
def running(home: Path, number: int = 1) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [start(home) for _ in range(number)]
    try:
        yield processes
    finally:
        for process in processes:
            end(process, signal.SIGKILL)


def make_events(*names: str) -> None:
    for name in names:
        world.fire(world.run(id=name), "run_started")
    catch_up()


def test_after_a_kill_in_the_middle_another_process_delivers_the_rest(receiver: Receiver, tmp_path: Path) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    make_events("a", "b", "c")
    reached, go_on = threading.Event(), threading.Event()

    def answer(message: Received) -> int:
        if message.entity == "b" and not go_on.is_set():
            reached.set()
            go_on.wait(30)
        return 200

    receiver.answer = answer
    with running(tmp_path) as (process,):
        until(reached.is_set)
        end(process, signal.SIGKILL)
    go_on.set()
    assert WebhookDelivery.objects.count() == 2
    with running(tmp_path) as (process,):
        until(lambda: WebhookDelivery.objects.filter(is_delivered=True).count() == 6)
        assert end(process) == 0
    assert receiver.accepted_by_entity() == {"a": [1, 2], "b": [1, 2], "c": [1, 2]}
    assert len({each.id for each in receiver.received}) == 6
    webhook.refresh_from_db()
    assert webhook.leased_until is None


def test_two_processes_never_deliver_one_webhook_at_once(receiver: Receiver, tmp_path: Path) -> None:
    subscribe(receiver.url, entity_type="run")

    def answer(message: Received) -> int:
        time.sleep(0.02)  # the time a receiver needs, in which another process could send as well
        return 200

    receiver.answer = answer
    with running(tmp_path, number=2) as processes:
        for number in range(10):
            make_events(f"a{number}", f"b{number}")
        until(lambda: WebhookDelivery.objects.filter(is_delivered=True).count() == 40)
        assert [end(process) for process in processes] == [0, 0]
    assert receiver.most_at_once == 1
    assert len(receiver.received) == 40
    positions = [each.body["position"] for each in receiver.received]
    assert positions == sorted(positions)
    assert Webhook.objects.get().leased_until is None
