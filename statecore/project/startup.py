"""The steps that run once, before the processes start."""

import errno
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import structlog

from statecore.project import home as home_directory
from statecore.project.refusal import Refused
from statecore.storage import files

log = structlog.get_logger(__name__)

FIRST_OPERATOR = "operator"


def lock_home(home: Path) -> TextIO:
    """Locks the home until the returned file is closed or this process dies."""
    home_directory.create(home)
    path = home / "up.lock"
    try:
        file = os.fdopen(files.take_lock(path), "r+", encoding="ascii")
    except BlockingIOError:
        holder = path.read_text(encoding="ascii").strip() or "unknown"
        raise Refused(f"Statecore is already running on STATECORE_HOME {home} (process {holder}).") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def check_port(host: str, port: int) -> None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        raise Refused(_explain_bind_error(host, port, error)) from None


def _explain_bind_error(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; set PORT to a free one."
    if error.errno == errno.EACCES:
        return f"port {port} on {host} may not be opened by this user; set PORT to one above 1023."
    return f"HOST {host} cannot be listened on: {error.strerror}."


def check_declarations() -> None:
    """Runs Django's checks once for all processes: each run loads every page and every API call."""
    from django.core import checks

    for each in checks.run_checks():
        if each.is_serious() and not each.is_silenced():
            raise Refused(f"{each.id}: {each.msg}")


def migrate(is_stopping: Callable[[], bool] = lambda: False) -> None:
    from django.core.management import call_command

    from statecore.project import migration_lock
    from statecore.storage import private_files

    private_files.make_private()
    with migration_lock.hold(is_stopping):
        call_command("migrate", verbosity=0, interactive=False)


def check_integrity(*, start_anyway: bool) -> None:
    """Refuses to start if recent rows do not verify, unless STATECORE_START_ANYWAY is set.

    A damaged journal file is no reason, because the sequencer repairs it when it runs, and neither is a silent witness
    or a failover that lost the last events, which the sequencer records as the start of an epoch.
    """
    from statecore.journal.lost_positions import is_loss_proven
    from statecore.operations import integrity

    errors = integrity.select_database_errors(integrity.check_recent())
    if errors and is_loss_proven():
        errors = [each for each in errors if each.check not in integrity.COPY_CHECKS]
    if errors and not start_anyway:
        raise Refused(
            f"stored data does not verify ({len(errors)} errors, the first: {errors[0]}); "
            f"see `manage.py integrity`, or set STATECORE_START_ANYWAY=1 to start anyway."
        )


def check_executor_work() -> None:
    """Logs work that executors have declared and this process does not know of; only they do it nevertheless."""
    from statecore.records import executor_work

    for each in executor_work.list_unknown():
        log.warning("executors_unknown", setting=each.setting, host=each.host)


def create_first_operator() -> str | None:
    """Creates a superuser if no user can log in, and returns its password."""
    from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
    from django.contrib.auth.models import User

    if User.objects.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX).exists():
        return None
    password = secrets.token_urlsafe(16)
    User.objects.create_superuser(FIRST_OPERATOR, password=password)
    return password
