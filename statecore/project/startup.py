"""What happens once, before the processes start."""

import errno
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from statecore.kernel import file_lock
from statecore.project import secret
from statecore.project.refusal import Refused

FIRST_OPERATOR = "operator"


def lock_home(home: Path) -> TextIO:
    """The home is ours while the returned file is open, even if we are killed meanwhile."""
    secret.make_home(home)
    path = home / "up.lock"
    try:
        file = os.fdopen(file_lock.take(path), "r+", encoding="ascii")
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
        raise Refused(_why_not(host, port, error)) from None


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; set PORT to a free one."
    if error.errno == errno.EACCES:
        return f"port {port} on {host} may not be opened by this user; set PORT to one above 1023."
    return f"HOST {host} cannot be listened on: {error.strerror}."


def check_declarations() -> None:
    """Once for all processes: each would load every page and every call, only to say the same."""
    from django.core import checks

    for each in checks.run_checks():
        if each.is_serious() and not each.is_silenced():
            raise Refused(f"{each.id}: {each.msg}")


def migrate(is_over: Callable[[], bool] = lambda: False) -> None:
    from django.core.management import call_command

    from statecore.project import migrating

    with migrating.alone(is_over):
        call_command("migrate", verbosity=0, interactive=False)


def check_integrity(*, start_anyway: bool) -> None:
    """Nothing runs on a journal that was tampered with, unless somebody says so in as many words."""
    from statecore import integrity

    errors = [finding for finding in integrity.check_recent() if finding.severity == integrity.ERROR]
    if errors and not start_anyway:
        raise Refused(
            f"what is stored does not verify ({len(errors)} errors, the first: {errors[0]}); "
            f"see `manage.py integrity`, or set STATECORE_START_ANYWAY=1 to start all the same."
        )


def first_operator() -> str | None:
    """Make the first user when there is none who can log in, and return its password."""
    from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
    from django.contrib.auth.models import User

    if User.objects.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX).exists():
        return None
    password = secrets.token_urlsafe(16)
    User.objects.create_superuser(FIRST_OPERATOR, password=password)
    return password
