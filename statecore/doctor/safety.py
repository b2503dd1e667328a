"""What lets strangers in: settings that are not for production, and commands that can do anything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core import checks

from .finding import Finding, fine, warn, wrong

LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
# Whoever may choose their arguments may run anything.
CAN_DO_ANYTHING = {
    "ash",
    "bash",
    "dash",
    "env",
    "node",
    "perl",
    "python",
    "python3",
    "ruby",
    "sh",
    "sudo",
    "xargs",
    "zsh",
}


def settings_are_for_production() -> Iterator[Finding]:
    if settings.DEBUG:
        yield wrong("STATECORE_DEBUG=1 shows tracebacks and settings to whoever asks", "take it out")
    if "*" in settings.ALLOWED_HOSTS:
        yield wrong("STATECORE_ALLOWED_HOSTS has *", "name the hosts: links in mails and redirects are made from them")
    if set(settings.ALLOWED_HOSTS) <= LOOPBACK:
        yield fine("reached from this machine alone")
        return
    complaints = [each for each in checks.run_checks(include_deployment_checks=True) if not each.is_silenced()]
    for each in complaints:
        yield (wrong if each.is_serious() else warn)(
            f"{each.id}: {each.msg}", each.hint or "manage.py check --deploy; STATECORE_HTTPS=1 behind TLS settles most"
        )
    if not complaints:
        yield fine(f"as for production; reached as {', '.join(sorted(set(settings.ALLOWED_HOSTS) - LOOPBACK))}")


def allowed_commands() -> Iterator[Finding]:
    names = settings.STATECORE_GATE_COMMANDS
    if not names:
        yield fine("commands are off")
        return
    for name in names:
        if Path(name).name in CAN_DO_ANYTHING:
            yield warn(f"STATECORE_GATE_COMMANDS allows {name}, which can run anything", "allow the program it is for")
        if shutil.which(name) is None:
            yield warn(
                f"STATECORE_GATE_COMMANDS allows {name}, which is not on this machine", "install it, or take it out"
            )
    yield fine(f"gates may run {', '.join(names)}")
