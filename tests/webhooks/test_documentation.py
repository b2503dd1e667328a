"""The receiver in docs/how-to/receive-webhooks.md works as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from statecore.delivery.webhooks import subscriptions
from tests.support import world
from tests.support.sequencer import ROOT
from tests.support.waiting import is_listening, read_line, until
from tests.support.web import free_port
from tests.support.webhooks import deliver, operator

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.starts_processes, pytest.mark.once_on("postgres")
]  # fmt: skip


def test_the_receiver_of_the_page_takes_genuine_messages_once(tmp_path: Path) -> None:
    (printed,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/receive-webhooks.md").read_text(), re.DOTALL)
    program, port = tmp_path / "receiver.py", free_port()
    program.write_text(printed)
    webhook, secret = subscriptions.subscribe(
        f"http://127.0.0.1:{port}/", actor=operator(), filters={"entity_type": "run"}
    )
    environ = {**os.environ, "PORT": str(port), "WEBHOOK_SECRET": secret}
    with subprocess.Popen(
        [sys.executable, str(program)], env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        try:
            assert process.stdout is not None
            until(lambda: is_listening(port))
            world.run(id="r1")
            deliver()
            subscriptions.replay(webhook.pk, 0, actor=operator())
            deliver()
            world.run(id="r2")
            deliver()
            lines = [read_line(process.stdout).decode().split() for _ in range(2)]
            found = [(name, entity) for name, _position, entity in lines]
            assert found == [("run_created", "r1"), ("run_created", "r2")]
            assert list(webhook.deliveries.values_list("status", flat=True)) == [204, 204, 204]
            forged = httpx.post(f"http://127.0.0.1:{port}/", content=b"{}", headers={"webhook-id": "x"})
            assert forged.status_code == 401
        finally:
            process.kill()
