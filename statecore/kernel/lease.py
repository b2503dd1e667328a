"""Guards against late reports: whoever lost the lease of an entity may not speak for it any more."""

from __future__ import annotations

from typing import Any

from .actors import Kind
from .moves import Facts
from .refusals import LeaseLost, Unmet


def lost(entity: Any, attempt: object) -> Unmet:
    said = "no attempt was named" if attempt is None else f"attempt {attempt} has lost its lease"
    now = f"it is {entity.state}" if attempt == entity.attempt else f"the current attempt is {entity.attempt}"
    return Unmet(LeaseLost.code, f"{said}: {now}")


def the_attempt_is_current(entity: Any, facts: Facts) -> Unmet | None:
    """An agent names the attempt it was given, as soon as there was one."""
    attempt = facts.params.get("attempt")
    may_be_silent = facts.actor.kind is not Kind.AGENT or entity.attempt == 0
    if attempt == entity.attempt or (attempt is None and may_be_silent):
        return None
    return lost(entity, attempt)
