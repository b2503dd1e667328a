"""All the checks by their names, in the order in which one would ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from django.db import DatabaseError, connection
from redis.exceptions import RedisError

from . import access, broker, database, machine, order, safety, work
from .finding import Finding, wrong

Check = Callable[[], Iterator[Finding]]

# What needs no database, then the database itself, then what lives in it.
OUTSIDE: dict[str, Check] = {
    "python": machine.python,
    "packages": machine.packages,
    "home": machine.home,
    "disk": machine.disk,
    "settings": safety.settings_are_for_production,
    "gates": safety.allowed_commands,
    "redis": broker.redis,
    "worker": broker.workers,
    "beat": broker.beat,
}
INSIDE: dict[str, Check] = {
    "migrations": database.migrations,
    "triggers": database.triggers_are_in_place,
    "clock": database.clock,
    "operators": access.operators,
    "tokens": access.tokens,
    "sequencer": order.sequencer,
    "journal file": order.journal_file,
    "seals": order.seals,
    "backup": order.backups,
    "retired": order.retired_files,
    "integrity": work.recent_integrity,
    "stuck": work.stuck_entities,
    "alerts": work.open_alerts,
}
CHECKS: dict[str, Check] = {**OUTSIDE, "database": database.server, **INSIDE}


def examine(only: Collection[str] = ()) -> Iterator[Finding]:
    """The answers as they come; of all checks, or of the named ones."""
    wanted = set(only) or set(CHECKS)
    for name, check in OUTSIDE.items():
        if name in wanted:
            yield from _asked(name, check)
    if wanted & {"database", *INSIDE}:
        yield from _about_the_database(wanted)


def _about_the_database(wanted: set[str]) -> Iterator[Finding]:
    """One that does not answer is told once, not by everything that would ask it."""
    if gone := database.unreachable():
        yield replace(gone, check="database")
        return
    for name, check in {"database": database.server, **INSIDE}.items():
        if name in wanted:
            yield from _asked(name, check)


def _asked(name: str, check: Check) -> Iterator[Finding]:
    try:
        for finding in check():
            yield replace(finding, check=name)
    except (DatabaseError, RedisError, OSError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        yield replace(wrong(f"could not be asked: {said}", "mend what the other lines say, then ask again"), check=name)
        if isinstance(error, DatabaseError):
            connection.close()
