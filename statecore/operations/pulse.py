"""The pulse of a process: a message every few seconds to the program that started it, as systemd's WatchdogSec expects.

A process whose pulse stops hangs, and is started again. The pulse needs neither database nor broker: a process that
waits for them is well.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress

# A program that starts processes expects to wait this long for a pulse before it starts a process again.
MISSED_AFTER = 30.0
# The name of one of several processes, such as `rest-8001`, set by the program that starts it.
NAME = "STATECORE_PROCESS"
NOTIFY_SOCKET = "NOTIFY_SOCKET"
PID = "X_STATECORE_PID"
SECONDS = 2.0


def start() -> None:
    """Sends the pulse from a thread, if the program that started this process waits for it."""
    # Removed, because the programs that this process starts have no pulse.
    if address := os.environ.pop(NOTIFY_SOCKET, ""):
        threading.Thread(target=_send_repeatedly, args=(address,), name="pulse", daemon=True).start()


def _send_repeatedly(address: str) -> None:
    path = "\0" + address[1:] if address.startswith("@") else address
    message = f"WATCHDOG=1\n{PID}={os.getpid()}".encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(SECONDS)
        while True:
            with suppress(OSError):
                sender.sendto(message, path)
            time.sleep(SECONDS)
