"""Second-person policies: the states that one person alone may not force, and the group of the person who approves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from django.conf import settings

# `run->succeeded`, `run->succeeded by supervisor`. The older form `run.running->succeeded` means its target.
_POLICY = re.compile(r"(?P<machine>\w+)(?:\.\w+)?\s*->\s*(?P<state>\w+)(?:\s+by\s+(?P<group>\S.*))?")


class Policy(NamedTuple):
    """Forcing an entity of this machine into this state needs the approval of another person, of the group if named."""

    entity_type: str
    to_state: str
    group: str = ""

    def __str__(self) -> str:
        return f"{self.entity_type}->{self.to_state}" + (f" by {self.group}" if self.group else "")


def parse_policy(text: str) -> Policy | None:
    """Return the policy, or None for text that is not one; machine and state may still be unknown."""
    found = _POLICY.fullmatch(text.strip())
    return Policy(found["machine"], found["state"], found["group"] or "") if found else None


def policies_for(entered: Iterable[tuple[str, str]]) -> list[Policy]:
    """Return the policies that protect one of these pairs of machine and state."""
    by_target = _by_target(frozenset(settings.STATECORE_SECOND_PERSON))
    if not by_target:
        return []
    return sorted({policy for target in entered for policy in by_target.get(target, ())})


@cache
def _by_target(texts: frozenset[str]) -> dict[tuple[str, str], list[Policy]]:
    found: dict[tuple[str, str], list[Policy]] = {}
    for text in sorted(texts):
        if policy := parse_policy(text):
            found.setdefault((policy.entity_type, policy.to_state), []).append(policy)
    return found
