"""Ends this process with the one that started it by `multiprocessing`, even if that is killed."""

import multiprocessing
import os
import threading
from multiprocessing.connection import wait

from statecore.project import launcher


def die_with_starter() -> None:
    """Otherwise the child of a killed server would continue to serve, with old code after an upgrade."""
    starter = multiprocessing.parent_process()
    if starter is None:
        return
    launcher.die_with_parent()
    # The only way on systems other than Linux, and on Linux if the starter died before the line above.
    threading.Thread(target=_exit_after, args=(starter.sentinel,), name="starter", daemon=True).start()


def _exit_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
